"""Find the loop over epochs: the loop around the loop over batches."""

from __future__ import annotations

import re
from collections.abc import Mapping

import libcst as cst

from retrofit import torch_api
from retrofit.survey.flow import Flow
from retrofit.survey.index import Binding, Index, Scope, Statement, dotted
from retrofit.survey.sites import Backward, EpochLoop

#: What goes over what it is given, and shows how far it is.
_BARS = ("tqdm", "track", "progressbar", "alive_it")
_RANGES = ("range", "numpy.arange", "np.arange", "six.moves.range", "six.moves.xrange", "builtins.range")

#: What a loop over epochs calls its variable, where no loop over batches is in it.
_EPOCH = re.compile(r"(\w+_)?(epochs?|ep)(_?(i|id|idx|index|n|no|num|number))?", re.IGNORECASE)

#: A function or class by such a name finds a learning rate.
_FINDS_RATE = re.compile(
    r"(find|range_?test|search).*(?<![a-z])(lr|clr|learning_?rate)|(?<![a-z])c?lr_?(find|range|search)", re.IGNORECASE
)

#: A call by this name, or one that holds it as a word, validates.
VALIDATES = re.compile(r"(^|_)(vali?|valid|validat\w*|eval|evaluat\w*|test|testing)(_|\d|$)", re.IGNORECASE)


def find_loops(index: Index, flow: Flow, backwards: list[Backward]) -> list[EpochLoop]:
    """Return the epoch loops, one in nearly every script.

    Args:
        backwards: the backward passes; an epoch loop is around the batch loop of one of them, perhaps through calls.
            Where nothing has two such loops, one that fetches its batches by itself counts.
    """
    found: dict[Statement, EpochLoop] = {}
    ways = [loops for backward in backwards for loops in flow.enclosing_loops(backward.statement)]
    ways = [loops for loops in ways if not any(_only_tries(index, part) for part in loops)] or ways
    ways = [loops for loops in ways if not _by_pieces(index, flow, loops, ways)]
    sites = {s: _epoch_loop(index, flow, s) for loops in ways for s in loops}
    within = [_before_repeats(index, flow, loops, sites) for loops in ways]
    for alone in (False, True):
        for loops in within if not found else []:
            loop = _choose([site for s in loops if (site := sites[s]) is not None], loops, alone)
            if loop is not None:
                found.setdefault(loop.statement, loop)
    for loops in ways if not found else []:
        loop = _only_pass(index, flow, loops)
        if loop is not None:
            found.setdefault(loop.statement, loop)
    around = {part for loops in ways for s in loops if s in found for part in loops[loops.index(s) + 1 :]}
    found = {statement: loop for statement, loop in found.items() if statement not in around}
    called = {statement: loop for statement, loop in found.items() if flow.uncalled(statement) is None}
    found = called or found  # a class that only lends its functions may have a loop of its own
    for loop in found.values():
        inner = [part for loops in ways if loop.statement in loops for part in loops[: loops.index(loop.statement)]]
        loop.by_iteration = all(_accumulates(index, part) for part in inner)
        loop.inner = [part for part in dict.fromkeys(inner) if part.scope is loop.scope]
        outer = [part for loops in ways if loop.statement in loops for part in loops[loops.index(loop.statement) + 1 :]]
        loop.repeats = [(head(index, part), index.place(part.node, loop.file)) for part in dict.fromkeys(outer)]
        loop.leftovers = _leftovers(loop.statement, flow)
        loop.ends = _ends(loop)
        loop.thaws = _thaws(index, flow, loop)
        loop.resumed = _resumed(index, loop)
    return list(found.values())


def _only_tries(index: Index, loop: Statement) -> bool:
    """Whether a loop trains nothing for good: of a learning-rate finder, of what gives the state back, of a test."""
    scope, code = loop.scope, index.source.code
    names = [scope.name, *([scope.enclosing_class.name] if scope.enclosing_class is not None else [])]
    if scope.kind != "function":
        return False
    if any(_FINDS_RATE.search(name) for name in names):
        return True
    body = code(scope.node)
    if VALIDATES.search(scope.name) and ".eval()" in body and not re.search(r"\.(train|backward)\(", body):
        return True
    for call in index.calls:
        given = dotted(call.args[0].value) if len(call.args) == 1 else None
        loads = isinstance(call.func, cst.Attribute) and call.func.attr.value == "load_state_dict"
        place = index.statement(call)
        turns = [part for part in loop.path if isinstance(part.node, (cst.For, cst.While)) and part.scope is scope]
        here = place.scope is scope and place.order > loop.order and not any(part in place.path for part in turns)
        if given is None or not loads or not here:
            continue
        kept = [b for b in index.bindings if b.target == given and b.statement.scope is scope]
        before = all(one.statement.order < loop.order and loop not in one.statement.path for one in kept)
        if kept and before and all(one.value is not None and "state_dict()" in code(one.value) for one in kept):
            return True
    return False


def _by_pieces(index: Index, flow: Flow, loops: list[Statement], ways: list[list[Statement]]) -> bool:
    """Whether one of the loops, in which nothing steps, is over pieces of a batch.

    It is told from the loop over batches by another way to a backward pass that differs by it alone.
    """
    for number, loop in enumerate(loops[:-1]):
        if not isinstance(loop.node, cst.For) or [*loops[:number], *loops[number + 1 :]] not in ways:
            continue
        within = [loop.node, *(scope.node for scope in called_in(index, flow, loop))]
        steps = any(".step(" in index.source.code(node) for node in within)
        if not steps and (len(loops) > 2 or _accumulates(index, loop)):
            return True
    return False


def head(index: Index, loop: Statement) -> str:
    """Return the first line of a loop, as messages quote it."""
    return index.source.code(loop.node).splitlines()[0].split("#")[0].strip()


def _choose(candidates: list[EpochLoop], loops: list[Statement], alone: bool) -> EpochLoop | None:
    """Choose the epoch loop among the countable loops around a backward pass, innermost first.

    Args:
        alone: whether the only loop may be it.
    """
    outer = [site for site in candidates if site.statement is not loops[0] or (alone and len(loops) == 1)]
    named = [site for site in outer if re.search(r"epoch", site.target, re.IGNORECASE)]
    if named or outer:
        return (named or outer)[0]
    return None


def _before_repeats(
    index: Index, flow: Flow, loops: list[Statement], sites: Mapping[Statement, EpochLoop | None]
) -> list[Statement]:
    """Return the loops around a backward pass, only the innermost where that is over epochs and those around repeat it.

    That is so where it has no loop over batches inside, and another fold or seed begins with an optimizer of its own.
    """
    targets = [site.target for part in loops if (site := sites[part]) is not None]
    named = [bool(re.search("epoch", target, re.IGNORECASE)) for target in targets]
    inner = sites[loops[0]] if len(targets) > 1 else None
    if inner is None or not _EPOCH.fullmatch(inner.target) or any(named[1:]):
        return loops
    return loops[:1] if any(_builds_optimizer(index, flow, part) for part in loops[1:]) else loops


def _builds_optimizer(index: Index, flow: Flow, loop: Statement) -> bool:
    """Whether an optimizer is built in each turn of a loop, perhaps by a library that is given its class."""
    running = called_in(index, flow, loop)
    mentioned = [
        index.qualified(node)
        for call in index.calls
        if loop in index.statement(call).path or index.scope_of(call) in running
        for node in (call.func, *(arg.value for arg in call.args))
    ]
    optimizers = {f"torch.optim.{name}" for name in torch_api.OPTIMIZERS}
    return not optimizers.isdisjoint(mentioned)


def _only_pass(index: Index, flow: Flow, loops: list[Statement]) -> EpochLoop | None:
    """Return the only loop of a training as long as its batches last, which validates every so many of them."""
    if not loops or not all(_accumulates(index, part) for part in loops[:-1]):
        return None
    statement, node = loops[-1], loops[-1].node
    if not isinstance(node, cst.For):
        return None
    if not _in_sight(index, flow, statement.scope):
        return None
    validating = [
        call
        for call in index.calls
        if VALIDATES.search(_last_name(index, call.func)) and statement in index.statement(call).path
        if any(isinstance(part.node, cst.If) and statement in part.path for part in index.statement(call).path)
    ]
    batches = _gone_through(index, node.iter)
    endless = _goes_on(index, flow, batches, statement.scope)
    if not validating or (dotted(batches) is None and not endless):
        return None
    target = index.source.code(node.target)
    return EpochLoop(node=node, index=index, target=target, limited=not endless, anchors={"range": batches})


def _goes_on(index: Index, flow: Flow, batches: cst.BaseExpression, scope: Scope) -> bool:
    """Whether batches never end: `cycle(loader)`, or a function of the project that yields in a `while True`."""
    made = [origin.node for origin in flow.origins(batches, scope)]
    if not made or not all(isinstance(node, cst.Call) for node in made):
        return False
    for node in made:
        assert isinstance(node, cst.Call)
        function = flow.called(node)
        endless = [s for s in index.loops if s.scope is function and isinstance(s.node, cst.While)]
        heads = [index.source.code(s.node.test) for s in endless if isinstance(s.node, cst.While)]
        yields = any("yield" in index.source.code(s.node) for s in endless)
        if index.qualified(node.func) != "itertools.cycle" and not (yields and heads in (["True"], ["1"])):
            return False
    return True


def _in_sight(index: Index, flow: Flow, scope: Scope, seen: frozenset[Scope] = frozenset()) -> bool:
    """Whether every way of calls that leads to a function is known, up to the module that begins it."""
    if scope.kind != "function" or scope in seen:
        return scope.kind == "module"
    callers = flow.callers(scope)
    return bool(callers) and all(_in_sight(index, flow, index.scope_of(call), seen | {scope}) for call in callers)


def _accumulates(index: Index, statement: Statement) -> bool:
    """Whether a loop only adds up gradients: `for micro_step in range(n)`, without a step of the optimizer."""
    node = statement.node
    if not isinstance(node, cst.For) or not isinstance(node.iter, cst.Call):
        return False
    return index.qualified(node.iter.func) == "range" and ".step(" not in index.source.code(node.body)


def _epoch_loop(index: Index, flow: Flow, statement: Statement) -> EpochLoop | None:
    node = statement.node
    if isinstance(node, cst.While):
        return _while_loop(index, flow, statement, node)
    if not isinstance(node, cst.For):
        return None
    anchor = _gone_through(index, node.iter)
    target: cst.BaseExpression = node.target
    numbered = _numbered(index, node, node.iter)
    target = target if numbered is None else numbered
    iterable = _listed(index, flow, anchor, statement.scope)
    names = _meant(index, flow, iterable.func, statement.scope) if isinstance(iterable, cst.Call) else [""]
    site = EpochLoop(node=node, index=index, target=index.source.code(target), limited=True, anchors={"range": anchor})
    if numbered is not None and not names[0].endswith(("range", "count")):
        return site
    if not isinstance(iterable, cst.Call) or any(arg.star for arg in iterable.args):
        return None
    if names[0] == "itertools.count":
        site.limited = False
        return site
    own = statement.scope.binds("range")
    counts = all((one in _RANGES and not (one == "range" and own)) or _last(one) == "trange" for one in names)
    return site if counts else None


def _gone_through(index: Index, iterable: cst.BaseExpression) -> cst.BaseExpression:
    """Return what a loop goes through, within a progress bar, `enumerate` and what a recipe has put around it."""
    while isinstance(iterable, cst.Call) and iterable.args:
        if _last_name(index, iterable.func) not in ("enumerate", *_BARS) and not index.is_provided(iterable.func):
            break
        iterable = iterable.args[0].value
    return iterable


def _meant(index: Index, flow: Flow, function: cst.BaseExpression, scope: Scope) -> list[str]:
    """Return the full names of what a call may call: `(range if quiet else trange)(n)`, at once or by a name for it."""
    if isinstance(function, cst.IfExp):
        ways = [_meant(index, flow, one, scope) for one in (function.body, function.orelse)]
        return list(dict.fromkeys(name for way in ways for name in way))
    sources = flow.sources(flow.variable(function.value, scope)) if isinstance(function, cst.Name) else []
    values = [source.value for source in sources if isinstance(source.value, (cst.IfExp, cst.Name, cst.Attribute))]
    if not values or len(values) < len(sources):
        return [index.qualified(function)]
    ways = [_meant(index, flow, source.value, source.scope) for source in sources if source.value is not None]
    return list(dict.fromkeys(name for way in ways for name in way))


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _numbered(index: Index, loop: cst.For, iterable: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the number in `for epoch, seed in enumerate(seeds)`, None in any other loop."""
    while isinstance(iterable, cst.Call) and iterable.args and _last_name(index, iterable.func) in _BARS:
        iterable = iterable.args[0].value
    if not isinstance(iterable, cst.Call) or index.qualified(iterable.func) != "enumerate" or not iterable.args:
        return None
    if not isinstance(loop.target, cst.Tuple) or len(loop.target.elements) != 2:
        return None
    number = loop.target.elements[0].value
    return number if re.search(r"epoch", index.source.code(number), re.IGNORECASE) else None


def _listed(index: Index, flow: Flow, iterable: cst.BaseExpression, scope: Scope) -> cst.BaseExpression:
    """Return what a list, or a name with one value, goes over, the range in `epochs = tqdm(list(range(n)))`."""
    while True:
        values = flow.sources(flow.variable(iterable.value, scope)) if isinstance(iterable, cst.Name) else []
        bar = _opened(index, iterable, scope) if len(values) == 1 and values[0].value is None else None
        if bar is not None:
            iterable = bar
        elif len(values) == 1 and values[0].item is None and isinstance(values[0].value, cst.Call):
            iterable, scope = values[0].value, values[0].scope
        elif (given := _shown_by_own(index, flow, iterable)) is not None:
            iterable = given
        elif isinstance(iterable, cst.Call) and iterable.args and _last_name(index, iterable.func) in ("list", *_BARS):
            iterable = iterable.args[0].value
        else:
            return iterable


def _shown_by_own(index: Index, flow: Flow, call: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return what a function of the project is given that hands it back as it is, or in a progress bar."""
    function = flow.called(call) if isinstance(call, cst.Call) and call.args else None
    if function is None or not function.parameters or not isinstance(call, cst.Call):
        return None
    given = function.parameters[0]
    returned = [node.value for node, scope in index.returns if scope is function]
    values = []
    for value in returned:
        bound = [b.value for b in index.bindings if b.statement.scope is function and b.target == dotted(value)]
        values += [*bound, value] if dotted(value) == given else bound or [value]
    for value in values:
        if isinstance(value, cst.Call) and value.args and _last_name(index, value.func) in _BARS:
            value = value.args[0].value
        if value is None or dotted(value) != given:
            return None
    return call.args[0].value if values else None


def _opened(index: Index, name: cst.BaseExpression, scope: Scope) -> cst.Call | None:
    """Return the call in `with tqdm(range(n)) as bar` for the name of the bar, None for any other name."""
    for statement in index.statements:
        if statement.scope is scope and isinstance(statement.node, cst.With):
            for item in statement.node.items:
                if item.asname is not None and dotted(item.asname.name) == dotted(name):
                    return item.item if isinstance(item.item, cst.Call) else None
    return None


def _while_loop(index: Index, flow: Flow, statement: Statement, node: cst.While) -> EpochLoop | None:
    """Return a `while` loop that goes on for ever, or until a counter or a flag ends it; None for any other."""
    site = EpochLoop(node=node, index=index, target="", limited=False, anchors={"range": node.test})
    if _is_true(index, node.test):
        return site
    parts = conjuncts(node.test)
    below = (cst.LessThan, cst.LessThanEqual, cst.NotEqual)
    limits = [part for part in parts if counter(index, flow, statement, part, below)]
    others = [part for part in parts if part not in limits]
    flags = [name for part in others if (name := _flag(index, statement, part))]
    if not limits and len(flags) < len(parts):
        return None
    if limits:
        site.target = counter(index, flow, statement, limits[0], below)
        site.limited = True
    return site


def _is_true(index: Index, test: cst.BaseExpression) -> bool:
    return index.source.code(test).strip("()") in ("True", "1")


def _flag(index: Index, loop: Statement, test: cst.BaseExpression) -> str:
    """Return the name of the flag that a condition is, one that the loop itself sets; "" where it is none."""
    wanted = "True"
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test, wanted = test.expression, "False"
    name = dotted(test) or ""
    stops = [
        binding.statement
        for binding in index.bindings
        if binding.target == name
        and loop in binding.statement.path
        and binding.value is not None
        and index.source.code(binding.value) in {"True", "False"} - {wanted}
    ]
    return name if stops else ""


def conjuncts(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what must all hold for a condition to hold."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return [*conjuncts(test.left), *conjuncts(test.right)]
    return [test]


_MIRRORED: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.GreaterThan,
    cst.LessThanEqual: cst.GreaterThanEqual,
    cst.GreaterThan: cst.LessThan,
    cst.GreaterThanEqual: cst.LessThanEqual,
    cst.Equal: cst.Equal,
    cst.NotEqual: cst.NotEqual,
}


def counter(
    index: Index,
    flow: Flow,
    loop: Statement,
    test: cst.BaseExpression,
    operators: tuple[type[cst.BaseCompOp], ...],
) -> str:
    """Return the counter of a loop's turns that a comparison holds against a fixed number, "" where it does not.

    Args:
        operators: the comparisons that count, with the counter on their left.
    """
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return ""
    right = test.comparisons[0]
    for name, operator, bound in (
        (_counted(test.left), type(right.operator), right.comparator),
        (_counted(right.comparator), _MIRRORED.get(type(right.operator)), test.left),
    ):
        if name is None or operator not in operators:
            continue
        if operator is cst.Equal and isinstance(bound, cst.Integer):
            continue  # `epoch == 0` tells the first turn from the others
        changing = {b.target for b in index.bindings if loop in b.statement.path}
        paths = [path.split(".") for path in re.findall(r"(?<![.\w])[A-Za-z_][\w.]*", index.source.code(bound))]
        fixed = changing.isdisjoint(".".join(path[:end]) for path in paths for end in range(1, len(path) + 1))
        if fixed and _counts(index, flow, loop, name):
            return name
    return ""


def _counted(node: cst.BaseExpression) -> str | None:
    """Return the name in `step` or `step + 1`, None in anything else."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        node = node.left if isinstance(node.right, cst.Integer) else node
    return dotted(node)


def _counts(index: Index, flow: Flow, loop: Statement, name: str) -> bool:
    """Whether a variable only ever grows in a loop: with every turn, or with every step of the optimizer."""
    variable = flow.member(name, loop.scope)
    called = called_in(index, flow, loop)
    changes = [
        binding
        for binding in index.bindings
        if binding.target in (name, variable[1]) and flow.member(binding.target, binding.statement.scope) == variable
        if loop in binding.statement.path or binding.statement.scope in called
    ]
    node = loop.node
    if isinstance(node, cst.For) and name in (dotted(node.target), _number(index, node)):
        return all(change.statement is loop for change in changes)
    return bool(changes) and all(
        (_increments(change) or _handed_through(index, flow, change)) and _regular(index, change.statement, loop)
        for change in changes
    )


def _number(index: Index, loop: cst.For) -> str | None:
    """Return `step` for the loop `for step, batch in enumerate(batches)`, None for any other."""
    if not isinstance(loop.iter, cst.Call) or index.qualified(loop.iter.func) != "enumerate":
        return None
    return dotted(loop.target.elements[0].value) if isinstance(loop.target, cst.Tuple) else None


def _handed_through(index: Index, flow: Flow, change: Binding) -> bool:
    """Whether a function that is given the counter returns it after counting: `step = train(model, step)`."""
    if not isinstance(change.value, cst.Call) or change.item is not None:
        return False
    function = flow.called(change.value)
    returned = [dotted(node.value) for node, scope in index.returns if scope is function]
    if function is None or len(returned) != 1 or returned[0] not in function.parameters:
        return False
    arguments = [arg.value for arg in change.value.args]
    given = [source.value for source in flow.sources((function, returned[0])) if source.value in arguments]
    inside = [b for b in index.bindings if b.statement.scope is function and b.target == returned[0]]
    return (
        [dotted(value) for value in given] == [change.target]
        and bool(inside)
        and all(_increments(b) and _regular(index, b.statement, change.statement) for b in inside)
    )


def called_in(index: Index, flow: Flow, loop: Statement) -> set[Scope]:
    """Return the local functions that run within a loop."""
    found: set[Scope] = set()
    waiting = [call for call in index.calls if loop in index.statement(call).path]
    while waiting:
        function = flow.called(waiting.pop())
        if function is not None and function not in found:
            found.add(function)
            waiting += [call for call in index.calls if index.scope_of(call) is function]
    return found


def _increments(binding: Binding) -> bool:
    node = binding.statement.node
    if not isinstance(node, cst.SimpleStatementLine):
        return False
    for small in node.body:
        if isinstance(small, cst.AugAssign) and dotted(small.target) == binding.target:
            return isinstance(small.operator, cst.AddAssign)
    value = binding.value
    return (
        isinstance(value, cst.BinaryOperation)
        and isinstance(value.operator, cst.Add)
        and dotted(value.left) == binding.target
    )


def _regular(index: Index, statement: Statement, loop: Statement) -> bool:
    """Whether a statement runs with every turn, or where the optimizer steps; a count of failures does neither."""
    for part in statement.ancestors:
        if part is loop or isinstance(part.node, cst.FunctionDef):
            return True
        if isinstance(part.node, cst.If) and ".step(" not in index.source.code(part.node.body):
            return False
    return True


def _exits(index: Index, node: cst.CSTNode) -> bool:
    """Whether a statement ends the program as one that has done its work."""
    if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
        return False
    call = node.value
    done = not call.args or index.source.code(call.args[0].value) in ("0", "None")
    return done and index.qualified(call.func) in ("sys.exit", "exit", "quit")


def _last_name(index: Index, node: cst.BaseExpression) -> str:
    return (dotted(node) or "").rpartition(".")[2]


def _leftovers(statement: Statement, flow: Flow) -> list[tuple[int, str]]:
    """Return what runs after the loop: later statements around it, in its function and in those that call it."""
    index = flow.index
    found: list[tuple[int, str]] = []
    seen = set()
    waiting = [statement]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        for part in here.path[::-1]:
            if isinstance(part.node, (cst.FunctionDef, cst.ClassDef)):
                waiting += [index.statement(call) for call in flow.callers(index.function_scope(part.node))]
                break
            for later in part.following:
                if not isinstance(later.node, (cst.FunctionDef, cst.ClassDef)):
                    line = index.source.position(later.node)[0]
                    found.append((line, index.source.code(later.node).splitlines()[0].strip()))
    return found


def _ends(loop: EpochLoop) -> list[int]:
    """Return the lines that leave the loop: `break`, `return`, `exit()`, the condition of a `while` loop."""
    index = loop.index
    block = index.statements_in(loop.body)
    lines = [loop.line] if isinstance(loop.node, cst.While) and not _is_true(index, loop.node.test) else []
    for statement in index.statements:
        line = statement.node
        if statement.scope is not loop.scope or not isinstance(
            line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)
        ):
            continue
        leaves = [small for small in line.body if isinstance(small, (cst.Return, cst.Break)) or _exits(index, small)]
        path = statement.path if leaves else []
        inside = path[path.index(loop.statement) + 1 :] if loop.statement in path else []
        if not inside or inside[0].siblings is not block:
            continue
        inner = any(isinstance(part.node, (cst.For, cst.While)) for part in inside)
        lines += [index.source.position(small)[0] for small in leaves if not (inner and isinstance(small, cst.Break))]
    return lines


def _resumed(index: Index, loop: EpochLoop) -> list[str]:
    """Return the counters that may go on in the loop from an earlier start's number, as from a checkpoint's."""
    inside = [b for b in index.bindings if loop.statement in b.statement.path and b.statement.scope is loop.scope]
    found = []
    for name in dict.fromkeys(b.target for b in inside if _increments(b)):
        bound = [b for b in index.bindings if b.target == name and ("." in name or b.statement.scope is loop.scope)]
        taken = [b for b in bound if b not in inside and not _increments(b) and not isinstance(b.value, cst.Integer)]
        counts = all(_increments(b) for b in inside if b.target == name)
        if counts and first_values(index, loop, name) and any(_may_come_first(b, loop) for b in taken):
            found.append(name)
    return found


def _may_come_first(binding: Binding, loop: EpochLoop) -> bool:
    return binding.statement.scope is not loop.scope or binding.statement.order < loop.statement.order


def first_values(index: Index, loop: EpochLoop, name: str) -> list[Binding]:
    """Return what gives a variable a value before the epoch loop, on every way there."""

    def comes_first(binding: Binding) -> bool:
        scope, parent = binding.statement.scope, binding.statement.parent
        if "." in name:  # an attribute, of an object whose constructor gives it its first value
            method = scope.kind == "function" and scope.name == "__init__" and name.startswith("self.")
            return method and scope.parent is loop.scope.parent and parent is not None and parent.node is scope.node
        if scope is loop.scope:
            return _may_come_first(binding, loop) and (parent is None or parent in loop.statement.ancestors)
        return scope.parent is None and name in loop.scope.outer and parent is None

    return [b for b in index.bindings if b.target == name and comes_first(b)]


def _thaws(index: Index, flow: Flow, loop: EpochLoop) -> list[tuple[str, str]]:
    """Return (place, head) of each `if` about the turn's number under which the loop lets frozen parameters train."""
    places = [b.statement for b in index.bindings if b.target.endswith(".requires_grad") and dotted(b.value) == "True"]
    for call in index.calls:
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        given = [index.source.code(arg.value) for arg in call.args]
        named = re.match(r"(?i)(un_?freeze|thaw)", (dotted(call.func) or "").rpartition(".")[2])
        if named or (name == "requires_grad_" and given in ([], ["True"])):
            places.append(index.statement(call))
    for function in {place.scope for place in places} - {loop.scope}:
        places += [index.statement(call) for call in index.calls if flow.called(call) is function]
    turn = re.compile(rf"(?<![.\w]){re.escape(loop.target)}(?![.\w(])")
    tests = {
        part: part.node.test
        for place in places
        if loop.statement in place.path
        for part in place.path[place.path.index(loop.statement) + 1 :]
        if isinstance(part.node, cst.If) and loop.target and turn.search(index.source.code(part.node.test))
    }
    return [(index.place(part.node, loop.file), f"if {index.source.code(test)}") for part, test in tests.items()]
