"""Scores that a function which the epoch loop calls has to itself, and how the loop can get them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from retrofit.keys import OWNER
from retrofit.survey.branches import exclude_each_other, meeting
from retrofit.survey.conditions import argument_of, is_of_other_objects, rules_out
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import dotted, key_of, last_of, mentions, names_in, nodes_in, unquoted
from retrofit.survey.order import may_lack_value, runs_always
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.best import tracked_scores
from retrofit.survey.scores.filling import begun_anew
from retrofit.survey.scores.handed_on import best_in, bests_returned
from retrofit.survey.scores.makers import given_to, makers_of, reaching_makers
from retrofit.survey.scores.making import is_validation
from retrofit.survey.scores.namesakes import made_of, words_given, words_in_turn
from retrofit.survey.scores.presence import ends_on_others, presence
from retrofit.survey.scores.standins import StandIns
from retrofit.survey.scores.validation import (
    called_by,
    is_of_optimizer,
    runs_with_its_statement,
    validation_functions,
)
from retrofit.survey.scores.values import (
    bare_of,
    calls_method,
    code_of,
    deleted_later,
    element_of,
    in_loop,
    of_phases,
    only_begins,
    root_of,
    target_node,
    trains,
    variable_of,
    way_to_root,
    whole_of,
    written,
    written_items,
)
from retrofit.survey.scores.ways import Way, by_rank, last_before_leaving, way_in
from retrofit.survey.scores.words import Candidate, direction_of, told_by_name
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.score import KeptScore

_NAMED = (cst.Name, cst.Attribute, cst.Subscript)


def kept_scores(index: Index, flow: Flow, loop: EpochLoop) -> tuple[list[Candidate], set[Scope]]:
    """Scores of which a function that the loop calls keeps the best: `test(epoch)` with `if acc > best_acc` in it.

    It may be called in several places of which one alone leads there: `predict(epoch, test=False)`.

    Returns:
        the candidates that the loop can have, and every function that keeps a best.
    """
    candidates: list[Candidate] = []
    keepers: set[Scope] = set()
    for function, calls in validation_functions(index, flow, loop).items():
        found = _bests_kept(index, function)
        keepers.update([function] if any(not one.outside for one in found) else [])
        for candidate in found:
            here = index.statement(candidate.node)
            leading = [call for call in calls if not rules_out(here, call, flow)]
            for call in leading if len(leading) == 1 and not is_of_other_objects(here, flow) else ():
                handed = _of_self(index, flow, loop, candidate) or _passed_in(index, loop, function, call, candidate)
                handed = handed or _handed_back(index, flow, loop, function, call, candidate)
                candidates += [handed] if handed is not None else []
    return candidates, keepers


def _bests_kept(index: Index, function: Scope) -> list[Candidate]:
    """Return scores of which a function keeps the best in what is there when it has returned."""
    given = [name for name in function.parameters if name != "self"]
    return [c for c in tracked_scores(index, code_of(index, function), given) if outlives(function, c.best)]


def _of_self(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> Candidate | None:
    """Return a score that one method leaves in an attribute, for another to compare, as the loop of a third has it."""
    name, here = dotted(candidate.node) or "", index.scope_of(candidate.node)
    makers = [b.statement for b in index.bindings if b.target == name and b.value is not None]
    makers = [maker for maker in makers if maker.scope.name != "__init__"]
    calls = called_by(index, flow, loop).get(makers[0].scope, []) if len(makers) == 1 else []
    same = here.enclosing_class is not None and here.enclosing_class is loop.scope.enclosing_class
    if not name.startswith("self.") or not same or len(calls) != 1 or makers[0].scope is here:
        return None
    if makers[0].scope.enclosing_class is not here.enclosing_class:
        return None
    always = _is_reached(index, makers[0].scope, makers[0])
    return replace(candidate, node=cst.parse_expression(name), made=index.statement(calls[0])) if always else None


def _passed_in(
    index: Index, loop: EpochLoop, function: Scope, call: cst.Call, candidate: Candidate
) -> Candidate | None:
    """Return a score that the loop gives to a function that keeps the best of it: `best.update(epoch, stats)`."""
    candidate = _before_turning(index, function, candidate)
    name, code = root_of(candidate.node), index.source.code(bare_of(candidate.node))
    own = bool(index.bound([name], function))
    parameters = [one for one in function.parameters if one != "self"]
    if name not in parameters or own or not code.startswith(name):
        return None
    number = parameters.index(name)
    named = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == name]
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    given = next(iter(named or plain[number : number + 1]), None)
    bound = {b.target for b in index.bindings if in_loop(index, loop, b.statement.node)}
    path = index.statement(call).path
    once = all(
        part in loop.inner or not isinstance(part.node, (cst.For, cst.While))
        for part in path[path.index(loop.statement) + 1 :]
    )
    if given is None or root_of(given) not in bound or not once:
        return None
    node = given if code == name else cst.parse_expression(index.source.code(given) + code[len(name) :])
    return replace(candidate, node=node)


def _before_turning(index: Index, function: Scope, candidate: Candidate) -> Candidate:
    """Return the parameter that a function takes for its score as it is, or turned round: `score = -val_loss`.

    Where it does either by a choice, which of them is better is not told: then it is what the function makes of it,
    unless that may leave before.
    """
    bound = index.bound([root_of(candidate.node)], function) if isinstance(candidate.node, cst.Name) else []
    made = [way for one in bound for way in _either(one.value) if way is not None]
    turned = [one.expression for one in made if isinstance(one, cst.UnaryOperation) and type(one.operator) is cst.Minus]
    given = [*turned, *(one for one in made if not isinstance(one, cst.UnaryOperation))]
    names = {dotted(one) for one in given}
    if len(given) != len(made) or len(names) != 1 or names.isdisjoint(function.parameters):
        return candidate
    direction = candidate.direction
    if 0 < len(turned) < len(made) and _is_reached(index, function, meeting([one.statement for one in bound])):
        return candidate
    if turned:
        direction = {"max": "min", "min": "max"}.get(direction, "") if len(turned) == len(made) else ""
    return replace(candidate, node=given[0], direction=direction, holder="" if turned else candidate.holder)


def _is_reached(index: Index, function: Scope, here: Statement | None) -> bool:
    """Whether a function comes to a statement whenever it is called."""
    leaving = [index.statement(one) for one, scope in index.returns if scope is function]
    direct = here is not None and len(here.path) == len(index.statement(function.node).path) + 1
    return here is not None and direct and all(one.order > here.order for one in leaving)


def _either(value: cst.BaseExpression | None) -> list[cst.BaseExpression | None]:
    return [value.body, value.orelse] if isinstance(value, cst.IfExp) else [value]


def kept_by_training(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[Candidate]:
    """Scores of which a function keeps the best that trains for an epoch and then validates."""
    for function, (call, *others) in called_by(index, flow, loop).items():
        running = [function, *called_in(index, flow, index.statement(function.node))]
        evaluates = any(calls_method(index, one, "eval") for one in running)
        if others or not trains(index, function) or not evaluates:
            continue
        for candidate in tracked_scores(index, code_of(index, function)):
            around = index.statement(candidate.node).ancestors
            of_batches = any(isinstance(part.node, (cst.For, cst.While)) and part.scope is function for part in around)
            if not of_batches and outlives(function, candidate.best):
                handed = _handed_back(index, flow, loop, function, call, candidate)
                yield from [handed] if handed is not None else []


def kept_below(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[Candidate]:
    """Scores of which a function keeps the best that runs once in what the epoch loop calls."""
    for function, (call, *inner) in led_to_once(index, flow, loop).items():
        if not inner or trains(index, function):
            continue
        for candidate in tracked_scores(index, code_of(index, function)):
            if outlives(function, candidate.best):
                own = replace(candidate, inner=tuple(inner))
                handed = _handed_back(index, flow, loop, function, call, own)
                yield from [handed] if handed is not None else []


def outlives(function: Scope, name: str) -> bool:
    """Whether a variable is there after the function has returned: the best threshold of one validation is not."""
    return name not in function.names or name in function.outer or name in function.parameters


def _handed_back(
    index: Index, flow: Flow, loop: EpochLoop, function: Scope, call: cst.Call, candidate: Candidate
) -> Candidate | None:
    """Return a function's score as the epoch loop gets it, or can get it by a `return`; None where it cannot."""
    code, rest = index.source.code, candidate.rest
    returned = index.returned(function)
    if isinstance(index.parents[call], cst.Expr):
        taken = _taken_out(index, returned, candidate.node)
        own = replace(candidate, call=call, taken=taken or "")
        if taken is not None and kept_score(index, flow, loop, own) is not None:
            return own
    made = [b.value for b in index.bound([code(candidate.node)], function)]
    same = {code(bare_of(candidate.node)), *([code(made[0])] if len(made) == 1 and made[0] is not None else [])}
    for binding in index.bindings if not candidate.inner else ():
        if binding.value is call and returned and "." not in binding.target:
            values = [element_of(value, binding.item) for value in returned]
            if all(value is not None and code(bare_of(value)) in same for value in values):
                part = cst.parse_expression(binding.target + rest) if rest else None
                return replace(candidate, node=part or target_node(index, binding.statement, binding.target), rest="")
            written = [written_items(index, value) for value in values if value is not None]
            keys = {tuple(key for key, item in items if code(bare_of(item)) in same) for items in written}
            if len(written) == len(values) and len(keys) == 1 and len(key := keys.pop()) == 1:
                return replace(candidate, node=cst.parse_expression(f"{binding.target}[{key[0]}]{rest}"), rest="")
    noted = replace(candidate, call=call, noted=True)
    return noted if kept_score(index, flow, loop, noted) is not None else None


def best_scores(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[Candidate]:
    """The best so far that a function is given and returns, where the loop knows no score: `best = test(net, best)`."""
    for binding in index.bindings:
        if binding.target.isidentifier() and in_loop(index, loop, binding.statement.node):
            for one in best_in(index, flow, loop, binding.target):
                yield replace(one, node=target_node(index, binding.statement, binding.target), best="")


def returned_parts(index: Index, value: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]]:
    """Return what a caller can take out of a returned value, each with the code that does: `[0]`, `["acc"]`, ""."""
    return [("", value), *((f"[{key}]", item) for key, item in written_items(index, value))]


def _taken_out(index: Index, returned: list[cst.BaseExpression], node: cst.BaseExpression) -> str | None:
    """Return the code that takes an expression out of all that a function returns, None where there is none."""
    code = index.source.code(node)
    ways = [{rest for rest, one in returned_parts(index, v) if index.source.code(one) == code} for v in returned]
    return min(set.intersection(*ways), default=None) if ways else ""


def kept_score(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> KeptScore | None:
    """Return how a function is to return or to note the score that it keeps, None where that is not clear."""
    assert candidate.call is not None
    function = index.scope_of(candidate.node)
    makers, again = _makers_in(flow, loop, function, candidate)
    if not makers and candidate.named and candidate.node in index.parents:
        makers = [index.statement(candidate.node)]  # what other functions fill is known where this one reads it
    made = meeting(makers)
    heads = [maker.node.target for maker in makers if isinstance(maker.node, cst.For)]
    if made is None or any(root_of(candidate.node) in names_in(head) for head in heads):
        return None
    always = runs_always(made.node, {maker.node for maker in makers})
    lacking = not always and may_lack_value(variable_of(candidate.node), made, index)
    compared = _compared_in(index, flow, loop, candidate, made)
    if compared is not None:
        return _noting(index, flow, loop, candidate, [compared]) if candidate.noted else None
    if candidate.noted:
        return _noting(index, flow, loop, candidate, makers if lacking else [made])
    return None if again or lacking else _returning(index, flow, loop, candidate, made)


def _compared_in(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate, made: Statement) -> Statement | None:
    """Return where a function compares a score with its best in some of the turns that call it, as `if phase == "dev":`

    It makes one in each of them, but what an epoch is judged by is that one. None where it compares each that it makes,
    or an option says whether it does.
    """
    here, turns = index.statement(candidate.node), _turns_around(index, loop, candidate)
    if candidate.keeper is not here.scope or not turns:
        return None
    picked = [
        below
        for part, below in itertools.pairwise(here.path)
        if isinstance(part.node, cst.If) and part not in made.path and not by_rank(index, flow, part.node.test, here)
        if _differs(flow, part.node.test, candidate, turns)
    ]
    return picked[-1] if picked else None


def _differs(flow: Flow, test: cst.BaseExpression, candidate: Candidate, turns: list[Statement]) -> bool:
    """Whether a function asks for something that turns around its call give, as a phase: an option is for them all."""
    bound = [b for b in flow.index.bindings if not set(turns).isdisjoint(b.statement.path)]
    given, scope = {flow.member(b.target, b.statement.scope) for b in bound}, flow.index.scope_of(candidate.node)
    waiting = [flow.member(name, scope) for name in names_in(test) if name != root_of(candidate.node)]
    seen = set(waiting)
    while waiting:
        variable = waiting.pop()
        if variable in given:
            return True
        told = [(one.value, one.scope) for one in flow.sources(variable) if one.value is not None]
        more = {flow.member(name, where) for value, where in told for name in names_in(value)} - seen
        seen |= more
        waiting += more
    return False


def _turns_around(index: Index, loop: EpochLoop, candidate: Candidate) -> list[Statement]:
    """Return the loops in the epoch loop around the call of the function that has a score."""
    assert candidate.call is not None
    around = _between(index, loop, candidate.call)
    return [part for part in around if isinstance(part.node, (cst.For, cst.While))]


def _returning(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate, made: Statement) -> KeptScore | None:
    """Return how the function that makes a score is to return it to the loop, which calls it in one place."""
    function, call, rest = index.scope_of(candidate.node), candidate.call, candidate.taken + candidate.rest
    assert call is not None
    if candidate.inner or not isinstance(index.parents[call], cst.Expr):
        return None
    calls = called_by(index, flow, loop).get(function, [])
    if _exclusive(index, calls) or (rest and ends_on_others(flow, function)):
        return None
    here, made = index.statement(candidate.node), _last_made(index, candidate, made)
    way = way_in(index, flow, index.statement(function.node), made, call=call)
    if not isinstance(way.block.node, (cst.SimpleStatementLine, cst.SimpleStatementSuite, cst.For, cst.With, cst.If)):
        return None
    kept = _kept(flow, loop, call, rest, made, way)
    if kept is not None and kept.guarded and _turns_around(index, loop, candidate):
        return None  # what a later turn returns, None, would take the place of what this one has
    if kept is not None:
        read = here in way.block.following and not candidate.written
        in_turns = any(isinstance(one.node, cst.For) for one in made.around)
        bound = [b.statement for b in index.bound(_parts(index, candidate), function)]
        if read and any(one.order > here.order for one in bound):
            kept.anchors |= {"guard": here.node, "made": here.node}
        elif not kept.guarded and (
            (candidate.named and in_turns and not read and not _is_filled_by_turns(index, made))  # there may be no turn
            or deleted_later(index, made, root_of(candidate.node))
            or begun_anew(index, flow, way.block, candidate.node) is not None
        ):
            kept.anchors |= {"guard": way.block.node, "made": made.node}
        kept.expression = candidate.written or index.source.code(candidate.node)
        kept.present = _present(flow, loop, candidate, way.block)
    return kept


def _is_filled_by_turns(index: Index, made: Statement) -> bool:
    """Whether a statement gives an item by a key that is another one in each turn of its loop, `results[k] = ...`."""
    given = [cst.parse_expression(b.target) for b in index.items if b.statement is made]
    return any(isinstance(one, cst.Subscript) and key_of(one) is None for one in given)


def _present(flow: Flow, loop: EpochLoop, candidate: Candidate, made: Statement) -> str:
    """Return the code of the conditions under which a function can take a score out of what it has."""
    index, whole = flow.index, whole_of(flow.index, candidate)
    item = next((part for part in way_to_root(whole) if isinstance(part, cst.Subscript)), whole)
    at = made if candidate.written else index.statement(candidate.node)
    return " and ".join(presence(flow, whole, made, StandIns(index, flow, loop).of(item, at, candidate.call)))


def _noting(
    index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate, makers: list[Statement]
) -> KeptScore | None:
    """Return how a function is to note the score that it makes, None where a turn of the loop may make several.

    Of several that a loop makes the last one counts, if the user names it: the anchor "turn" is that loop then.

    Args:
        makers: the statements after which it has a value.
    """
    assert candidate.call is not None
    function, outer = index.scope_of(candidate.node), flow.called(candidate.call)
    every = called_by(index, flow, loop).get(outer, []) if outer is not None else []
    calls = [call for call in every if not rules_out(index.statement(candidate.node), call, flow)]
    others = [call for call in every if call not in calls]
    if any(not rules_out(maker, call, flow) for call in others for maker in makers):
        return None  # which would note theirs
    calls = calls if _exclusive(index, calls) else [candidate.call]
    calls += [one.call for one in candidate.beside if one.call is not None]
    met = meeting([index.statement(one) for one in calls])
    steps = [part for one in (*calls, *candidate.inner) for part in _between(index, loop, one)]
    turns = [part for part in steps if isinstance(part.node, (cst.For, cst.While)) and part not in loop.inner]
    often = [part for part in turns if part not in loop.training]  # a batch loop's last one of an epoch counts
    several = (often and not candidate.named) or _yields(index, function)
    if met is None or several or not isinstance(function.node, cst.FunctionDef):
        return None
    noted = [_noted(flow, loop, candidate, maker) for maker in makers]
    noted[0].further = noted[1:]
    noted[0].anchors |= {"call": met.node} | ({"turn": often[0].node} if often else {})
    noted[0].call = index.source.code(candidate.call)
    for one in candidate.inner:
        way = way_in(index, flow, index.statement(index.scope_of(one).node), index.statement(one), loop.training)
        noted[0].condition = way.condition or noted[0].condition
        noted[0].ranks = "first" if way.ranks == "first" else noted[0].ranks
        _tell_left_before(flow, noted[0], index.statement(one))
    return noted[0]


def _noted(flow: Flow, loop: EpochLoop, candidate: Candidate, maker: Statement) -> KeptScore:
    """Return how a function is to note a score after a statement that makes it, or the loop that sums it up."""
    index = flow.index
    made = _last_made(index, candidate, maker)
    if isinstance(last_of(made.node), cst.Return) and made.index:
        made = made.siblings[made.index - 1]  # it is returned as it is made, and behind that nothing runs
    way = way_in(index, flow, index.statement(made.scope.node), made, call=[candidate.call, *candidate.inner][-1])
    adds = any(isinstance(part.node, (cst.For, cst.While)) for part in made.around)
    adds = adds and not may_lack_value(variable_of(candidate.node), way.block, index)
    kept = KeptScore(
        node=(way.block if adds else made).node,
        index=index,
        expression=candidate.written or index.source.code(candidate.node) + candidate.rest,
        noted=True,
        condition=way.condition,
        ranks=way.ranks,
        present=_present(flow, loop, candidate, way.block),
    )
    _tell_left_before(flow, kept, made)
    return kept


def _between(index: Index, loop: EpochLoop, call: cst.Call) -> list[Statement]:
    """Return the statements around a call in the epoch loop, or else in its function."""
    path = index.statement(call).path
    body = loop.statement if loop.statement in path else index.statement(index.scope_of(call).node)
    return path[path.index(body) + 1 : -1]


def _parts(index: Index, candidate: Candidate) -> set[str]:
    """Return the names of what a score is made of."""
    own = candidate.written or index.source.code(candidate.node)
    return set(names_in(cst.parse_expression(own), called=False))


def _last_made(index: Index, candidate: Candidate, made: Statement) -> Statement:
    """Return the last statement beside one that makes a score which makes a part of it."""
    bound = [b.statement for b in index.bound(_parts(index, candidate), index.scope_of(candidate.node))]
    here = index.statement(candidate.node)
    beside = [one for one in bound if one in made.siblings and made is not here]
    return max([made, *beside], key=lambda one: one.order)


def _makers_in(flow: Flow, loop: EpochLoop, function: Scope, candidate: Candidate) -> tuple[list[Statement], bool]:
    """Return what in a function makes a score, and whether it is made anew after the place that tells of it.

    One that the function reads nowhere is what it ends with.
    """
    index, node = flow.index, candidate.node
    name = variable_of(node)
    if candidate.rest and any(
        b.statement.scope is function and b.target.partition("[")[0] == name for b in index.items
    ):
        node = whole_of(index, candidate)  # what begins the dict makes no item of it
    makers = makers_of(flow, node, code_of(index, function))
    if not candidate.written:
        return reaching_makers(index.statement(candidate.node), makers)
    if all(only_begins(index, b) for b in index.bound([name], function)):  # a list, which is nothing till it is filled
        filled = makers_of(flow, cst.parse_expression(f"{name}[-1]"), code_of(index, function))
        makers = filled or makers
    assert isinstance(function.node, cst.FunctionDef)
    last = index.statements_in(function.node.body)[-1]
    ending = {b.statement for b, _ in given_to(index, loop, variable_of(candidate.node), (), last, after=True)}
    return [maker for maker in makers if maker in ending] or makers, False


def _kept(flow: Flow, loop: EpochLoop, called: cst.Call, rest: str, made: Statement, way: Way) -> KeptScore | None:
    """Return how a function can return what it has after a statement, None where that is not clear.

    Args:
        called: the loop's call of the function.
        rest: what is to be taken out of what it returns.
        way: how the function comes to the statement.
    """
    index, function = flow.index, made.scope
    node, call = function.node, index.statement(called)
    assert isinstance(node, cst.FunctionDef)
    plain = node.asynchronous is None and not _yields(index, function)
    known = all(index.qualified(_called(d.decorator)).startswith("torch.") for d in node.decorators)
    around = _between(index, loop, called)
    simple = all(isinstance(part.node, (cst.If, cst.With)) or part in loop.inner for part in around)
    if not plain or not known or not simple:
        return None
    last = index.statements_in(node.body)[-1]
    kept = KeptScore(
        node=last.node,
        index=index,
        expression="",
        call=_outdented(index, called) + rest,
        anchors={"call": call.node},
        condition=way.condition,
        ranks=way.ranks,
    )
    if way.guard is not None:
        kept.anchors |= {"guard": way.guard.node, "made": last_before_leaving(way.block).node}
    for leaving, scope in index.returns:
        place = index.statement(leaving)
        if scope is not function:
            continue
        if leaving.value is not None:
            kept.returns = True
        elif place is last:
            kept.ends = True
        elif place.order > made.order:
            return None
    _tell_left_before(flow, kept, made)
    return None if kept.returns and (way.guard is not None or kept.ends) else kept


def _tell_left_before(flow: Flow, kept: KeptScore, made: Statement) -> None:
    """Say of a score on what conditions, or ranks, its function returns before it makes one."""
    index = flow.index
    for leaving, scope in index.returns:
        place = index.statement(leaving)
        if scope is made.scope and place.order < made.order:
            around = [part for part in place.ancestors if part not in made.path]
            tests = [(part, part.node.test) for part in around if isinstance(part.node, cst.If)]
            others = [test for part, test in tests if not by_rank(index, flow, test, part)]
            kept.condition = kept.condition or (f"not ({index.source.code(others[0])})" if others else "")
            kept.ranks = "first" if len(others) < len(tests) else kept.ranks


def _yields(index: Index, function: Scope) -> bool:
    return any(index.scope_of(one) is function for one in index.nodes_of(cst.Yield))


def _outdented(index: Index, node: cst.BaseExpression) -> str:
    """Return an expression's code, its further lines without the indentation of the block that it stands in.

    What follows a backslash stays where it is, as it does when the code is put into a block.
    """
    lines = index.source.code(node).splitlines(keepends=True)
    width = index.source.position(index.statement(node).node)[1] - 1
    found = lines[:1]
    for before, line in itertools.pairwise(lines):
        inner = line[:width].isspace() and not before.rstrip("\r\n").endswith("\\")
        found.append(line[width:] if inner else line)
    return "".join(found)


def _called(decorator: cst.BaseExpression) -> cst.BaseExpression:
    return decorator.func if isinstance(decorator, cst.Call) else decorator


def dropped_scores(index: Index, flow: Flow, loop: EpochLoop, keepers: set[Scope]) -> Iterator[Candidate]:
    """What functions that validate return to an epoch loop that does not take it."""
    for function, (call, *others) in validation_functions(index, flow, loop).items():
        if others or function in keepers or not is_validation(index, function):
            continue
        if any(isinstance(one, (cst.Assign, cst.AnnAssign, cst.AugAssign)) for one in index.ancestors(call)):
            continue  # the loop takes what is made of it: `loss = 1 - validate(model)`
        for value in index.returned(function):
            for key, part in returned_parts(index, value):
                code = index.source.code(part)
                name = key if direction_of(key) else "" if "-" in code else code  # `1 - acc` is as good as it is low
                if direction_of(name) and not written_items(index, part) and runs_with_its_statement(index, call):
                    candidate = Candidate(part, told_by_name(name), f"{index.place(part)}: {code}")
                    handed = _handed_back(index, flow, loop, function, call, candidate)
                    yield from [handed] if handed is not None else []


def shown_for(index: Index, metric: str, known: list[Candidate]) -> list[Candidate]:
    """The user's own expression, with the direction that the script shows for it."""
    return [replace(c, best="", named=True) for c in known if written(index, c.node) == metric][:1]


def measured_scores(index: Index, flow: Flow, loop: EpochLoop, metric: str) -> Iterator[tuple[Scope, Candidate]]:
    """The user's expression where the loop does not know its names, but a function does that it leads to.

    Those that validate count before others, and those that train last.

    Args:
        metric: the expression, perhaps with `FUNCTION:` before it, or `FUNCTION@WORD:` for its call that is given that.

    Yields:
        The function that knows it, and what the loop can have of it.
    """
    owner, metric = owner_of(metric)
    owner, _, word = unquoted(owner).partition("@")
    name = variable_of(cst.parse_expression(metric))
    if not owner and any(
        f"{b.target}.".startswith(f"{name}.") and in_loop(index, loop, b.statement.node) for b in index.bindings
    ):
        return
    knowing = _knowing(index, flow, loop, name, owner)
    ways = {f: way for f, way in led_to_once(index, flow, loop, word).items() if f in knowing}
    ways = {f: way for f, way in ways.items() if not word or any(word in words_given(index, call) for call in way)}
    apart = [f for f in ways if not trains(index, f)]
    making = called_in(index, flow, *(one for f in ways for one in made_of(index, name, f)))
    if not owner and not apart and not all(f in making or trains(index, f) for f in knowing):
        return  # another one that it leads to in several ways is meant
    through = {f: [g for call in ways[f] if (g := flow.called(call)) is not None] for f in apart}
    validating = [f for f in apart if any(is_validation(index, one) for one in through[f])]
    if not owner and not validating and metric != name and index.bound([name], loop.scope):
        ways = {f: way for f, way in ways.items() if _places_of(index, metric, f)}  # of one that the loop knows itself
        apart = [f for f in apart if f in ways]
    for function in validating or apart or ways:
        call, *inner = ways[function]
        found = _named_in(index, flow, loop, function, metric, owner, ways[function][-1])
        if found is not None:
            handed = _handed_back(index, flow, loop, function, call, replace(found, inner=tuple(inner)))
            if handed is not None and not (word and handed.noted):  # which each of its calls would
                yield function, handed
    for call in index.calls if not (ways or word) else ():
        several = flow.run_by(call) if in_loop(index, loop, call) else []
        found_in = [_named_in(index, flow, loop, one, metric, owner, call) for one in several[1:] and several]
        each = [replace(one, call=call, noted=True) for one in found_in if one is not None]
        noted = [one for one in each if kept_score(index, flow, loop, one) is not None]
        if noted and len(noted) == len(several):
            yield several[0], replace(noted[0], beside=tuple(noted[1:]))


def _named_in(
    index: Index, flow: Flow, loop: EpochLoop, function: Scope, metric: str, owner: str, by: cst.Call
) -> Candidate | None:
    """Return what the user's expression, perhaps with its function before it, is in a function, None for nothing.

    Args:
        by: the call that runs the function; where that does not come to says nothing.
    """
    name = variable_of(cst.parse_expression(metric))
    places = [one for one in _places_of(index, metric, function) if not rules_out(index.statement(one), by, flow)]
    read = [node for node in places if not isinstance(index.parents[node], cst.AssignTarget)]
    returned = index.returned(function)
    parts = [part for value in returned for _, part in returned_parts(index, value)]
    read = read or [part for part in parts if dotted(part) == name and metric.startswith(name)]
    own = "" if read else metric
    bound = index.bound([name], function)
    made = [b for b in bound if not only_begins(index, b)] or bound
    places = read or places or [target_node(index, b.statement, name) for b in made]
    last = max(places, key=index.source.position, default=None)
    if last is None or (not owner and _lasts(flow, loop, function, name, last)):
        return None
    rest = metric[len(name) :] if dotted(last) == name and not own else ""
    last = _with_its_name(index, last)
    evidence, code = f"{index.place(last)}: --metric", index.source.code(bare_of(last))
    items = {number for value in returned for number in range(len(written_items(index, value)))}
    bests = [
        *_bests_kept(index, function),
        *(b for i in (None, *sorted(items)) for b in bests_returned(index, function, i)),
    ]
    best = next((one for one in bests if index.source.code(bare_of(one.node)) == code), None)
    last = best.node if best is not None and best.keeper is index.scope_of(best.node) is function and not own else last
    holder, keeper = (best.holder, best.keeper) if best is not None else kept_where_given(flow, function, code)
    direction = told_by_name(metric)
    return Candidate(last, direction, evidence, "", holder, keeper=keeper, rest=rest, written=own, named=True)


def kept_where_given(flow: Flow, function: Scope, code: str) -> tuple[str, Scope | None]:
    """Return what holds the best of what a function gives another one, `manager.step(epoch, score)`, and that other.

    It takes the value under a condition that compares with what it has, in a method that it asks, say.
    """
    index = flow.index
    for call in index.calls_of(function):
        keeper = flow.called(call)
        given = [name for name in keeper.parameters if name != keeper.own] if keeper is not None else []
        for b in index.bindings if keeper is not None else ():
            if b.statement.scope is not keeper or b.value is None or not outlives(keeper, b.target):
                continue
            taken = _as_given(index, keeper, dotted(element_of(b.value, b.item)))
            value = argument_of(keeper, call, taken) if taken in given else None
            whole = index.source.code(value) if value is not None else code
            rest = code.removeprefix(whole)  # of a record that is given whole, `skill` for `skill.rmse`
            if (
                value is not None
                and whole + rest == code
                and rest[:1] in ("", ".", "[")
                and _is_compared(flow, b, rest)
            ):
                return b.target, keeper
    return "", None


def _as_given(index: Index, keeper: Scope, name: str | None) -> str | None:
    """Return the parameter that a function's variable is, perhaps turned round: `v = -x`, or `v = x if up else -x`."""
    made = [b.value for b in index.bound([name], keeper)] if name is not None else []
    either = _either(made[0]) if len(made) == 1 else []
    turned = [one.expression for one in either if isinstance(one, cst.UnaryOperation)]
    return next((own for one in (*either, *turned) if (own := dotted(one)) in keeper.parameters), name)


def _is_compared(flow: Flow, binding: Binding, rest: str) -> bool:
    """Whether what gives a variable its value asks first, by names and by functions, how that compares with it.

    Args:
        rest: the part of both that is to be compared, such as `.rmse`, "" for all.
    """
    index, scope = flow.index, binding.statement.scope
    same = {flow.member(binding.target, scope)}  # and the parameters of functions that are given it
    waiting: list[cst.CSTNode] = [test for test, _ in index.guards(binding.statement.node)]
    for node in waiting:  # which grows
        for part in nodes_in(node):
            here = index.scope_of(part)
            if isinstance(part, cst.Comparison) and not isinstance(part.comparisons[0].operator, (cst.Is, cst.IsNot)):
                named = [unquoted(index.source.code(one)) for one in nodes_in(part) if isinstance(one, _NAMED)]
                parts = [one.removesuffix(unquoted(rest)) for one in named if one.endswith(unquoted(rest))]
                if any(flow.member(one, here) in same for one in parts):
                    return True
            elif isinstance(part, cst.Call) and (asked := flow.called(part)) is not None:
                given = {name: dotted(argument_of(asked, part, name)) for name in asked.parameters}
                same |= {(asked, name) for name, one in given.items() if one and flow.member(one, here) in same}
                waiting += [value for value in index.returned(asked) if value not in waiting]
        made = [b.value for b in index.bound([*names_in(node)], index.scope_of(node)) if b.value is not None]
        waiting += [value for value in made if value not in waiting]
    return False


def _places_of(index: Index, metric: str, function: Scope) -> list[cst.BaseExpression]:
    """Return where the user's expression stands in a function."""
    return [
        node
        for node in index.parents
        if isinstance(node, cst.BaseExpression)
        and index.scope_of(node) is function
        and unquoted(index.source.code(node)) in (unquoted(metric), unquoted(f"({metric})"))
    ]


def _lasts(flow: Flow, loop: EpochLoop, function: Scope, name: str, read: cst.BaseExpression) -> bool:
    """Whether the loop itself has, in an attribute, what a function only reads, and nothing sets that back in there."""
    index = flow.index
    shared = "." in name and flow.variable(name, function) == flow.variable(name, loop.scope)
    set_here = bool(makers_of(flow, read, code_of(index, function)))
    return shared and not set_here and begun_anew(index, flow, index.statement(read), read) is None


def _with_its_name(index: Index, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the name that gets an expression's value and is in it, and so has another one after it, or itself."""
    for binding in index.bindings:
        if binding.value is not None and bare_of(binding.value) is node and binding.target in names_in(node):
            return target_node(index, binding.statement, binding.target)
    return node


def owners(index: Index, flow: Flow, loop: EpochLoop, expression: str) -> list[Scope]:
    """Return the functions below the epoch loop that give an expression's name a value."""
    name = variable_of(cst.parse_expression(expression))
    return [f for f in _knowing(index, flow, loop, name) if index.bound([name], f)]


def _knowing(index: Index, flow: Flow, loop: EpochLoop, name: str, owner: str = "") -> list[Scope]:
    """Return the functions below the epoch loop that know a variable; of an attribute, those that set it, if any do.

    Those that only get it, as to log or save it, count where none makes or returns it, and none of them hands it on.

    Args:
        owner: the name of the only one that is meant, "" for any.
    """
    running = [f for f in called_in(index, flow, loop.statement) if f.kind == "function" and owner in ("", f.name)]
    knowing = [f for f in running if name.partition(".")[0] in f.names and not is_of_optimizer(flow, f)]
    if "." not in name:
        handed = {flow.called(call) for f in knowing for call in index.calls_of(f) if _hands_on(flow, call, name)}
        others = [f for f in knowing if f not in handed]
        making = [f for f in others if any(mentions(value, [name]) for value in index.returned(f))]
        return [f for f in knowing if f in making or index.bound([name], f)] or others
    given = [b for b in (*index.bindings, *index.items) if b.target.partition("[")[0] == name]
    setting = {b.statement.scope for b in given}
    own = loop.scope.enclosing_class is not None
    same = [f for f in knowing if not own or flow.variable(name, f) == flow.variable(name, loop.scope)]
    return [f for f in same if f in setting] or knowing


def _hands_on(flow: Flow, call: cst.Call, name: str) -> bool:
    """Whether a call gives a local function a variable that is named there as it is here."""
    function = flow.called(call)
    given = argument_of(function, call, name) if function is not None and name in function.parameters else None
    return given is not None and mentions(given, [name])


def owner_of(metric: str) -> tuple[str, str]:
    """Split the user's word on the score into whose it is, "" where that is not said, and the expression there."""
    found = OWNER.match(metric)
    return (found[1], metric[found.end() :].strip()) if found is not None else ("", metric)


def _exclusive(index: Index, calls: list[cst.Call]) -> bool:
    """Whether of several calls a run makes one alone."""
    pairs = itertools.combinations([*map(index.statement, calls)], 2)
    return len(calls) > 1 and all(exclude_each_other(*pair) for pair in pairs)


def led_to_once(index: Index, flow: Flow, loop: EpochLoop, word: str = "") -> dict[Scope, list[cst.Call]]:
    """Return the functions that the epoch loop leads to by one call each, with the calls on the way, the loop's first.

    Several count as one where branches exclude each other, as ranks with and without a logger do, or where all but one
    stand among batches.

    Args:
        word: what the calls are given that are meant of a function's, "" for any.
    """
    called = {**called_by(index, flow, loop), **validation_functions(index, flow, loop)}
    among = _Batches(index, flow, loop)

    def alone(calls: list[cst.Call]) -> list[cst.Call]:
        if word and any(word in words_in_turn(index, call) for call in calls):
            return []  # more calls than one may be meant
        calls = [call for call in calls if word and word in words_given(index, call)] or calls
        return calls[:1] if len(calls) == 1 or _exclusive(index, calls) else among.outside(calls)

    found = {f: once for f, calls in called.items() if len(once := alone(calls)) == 1}
    waiting = list(found)
    while waiting:
        outer = waiting.pop(0)
        for call in index.calls_of(outer):
            function = flow.called(call) if len(found[outer]) < 4 else None
            if function is None or function in found or function.kind != "function":
                continue
            if alone(flow.callers(function)) == [call]:
                found[function] = [*found[outer], call]
                waiting.append(function)
    return found


class _Batches:
    """Tells which calls run once for so many batches, and not once in each turn of the epoch loop.

    Args:
        loop: the epoch loop.
    """

    def __init__(self, index: Index, flow: Flow, loop: EpochLoop) -> None:
        self._index, self._flow, self._loop = index, flow, loop
        self._running = called_in(index, flow, loop.statement)

    def outside(self, calls: list[cst.Call]) -> list[cst.Call]:
        """Return the calls of a function that an epoch makes beside its batches, where nothing takes what all give."""
        plain = all(isinstance(self._index.parents[call], cst.Expr) for call in calls)
        return [call for call in calls if self._runs(call) and not self._within(call, frozenset())] if plain else []

    def _within(self, call: cst.Call, seen: frozenset[Scope]) -> bool:
        """Whether a call stands in a loop over batches, or in a function that only such calls run."""
        scope, path = self._index.scope_of(call), self._index.statement(call).path
        around = [part for part in path if isinstance(part.node, (cst.For, cst.While))]
        turns = [part for part in around if not of_phases(self._index, part.node)]
        if self._loop.statement in path:
            return turns[-1:] != [self._loop.statement]
        if any(part.scope is scope for part in turns):
            return True
        calls = [one for one in self._flow.callers(scope) if self._runs(one)] if scope not in seen else []
        return bool(calls) and all(self._within(one, seen | {scope}) for one in calls)

    def _runs(self, call: cst.Call) -> bool:
        within = self._loop.statement in self._index.statement(call).path
        return within or self._index.scope_of(call) in self._running
