"""Find where a script trains only on several GPUs or in several processes, of which the initialisation run has one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set

import libcst as cst

from retrofit.knowledge.kinds import CountsProcesses
from retrofit.survey.arguments import read_as
from retrofit.survey.branches import meeting
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import COMPARING, argument, dotted, last_of
from retrofit.survey.order import always_leaves, apart_from_training, leading_to, leads_to, meeting_ways
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.model import Minimum
from retrofit.survey.sites.wrapper import Wrapper

#: A number of GPUs that is enough for any.
_MANY = 65


def find_minimums(
    index: Index,
    flow: Flow,
    loops: list[EpochLoop],
    origins: Collection[Origin] = (),
    wrappers: Collection[Wrapper] = (),
) -> list[Minimum]:
    """Return the conditions by which one GPU or process is not enough to train, or to move or wrap the model.

    What uses the wrapper under such a condition, and else the model, does so too where the wrapper's is met.

    Args:
        loops: the epoch loops.
        origins: where the model is built.
        wrappers: its wrappers.
    """
    training, asked = leading_to(loops, flow), _asked(index, flow)
    moved = [
        index.statement(call)
        for call, held in index.method_calls("to", "cuda")
        if not flow.deep_origins(held, index.scope_of(call)).isdisjoint(origins)
    ]
    choices = {
        one: holds
        for one in index.statements
        if isinstance(one.node, cst.If)
        if (holds := _with_one(index, flow, one.node.test, one.scope, asked)) is not None
    }
    branches = {choice: _branches(index, choice, holds) for choice, holds in choices.items()}
    left = {part for _, left_out in branches.values() for part in left_out}
    uses = [use for one in wrappers for use in one.uses]
    wrapped = [one.statement for one in wrappers] if any(left.isdisjoint(use.path) for use in uses) else []
    wrapping = {one for one, (taken, left_out) in branches.items() if not taken and _has_all(left_out, wrapped)}
    found = []
    for statement in index.statements:
        choice = statement.node
        if isinstance(choice, cst.If):
            holds = choices.get(statement)
            if holds is None:
                continue
            taken, left_out = branches[statement]
            instead = wrapping and taken and any(part in use.path for use in uses for part in left_out)
            needed = _has_all(left_out, moved) or statement in wrapping or instead
            if needed or _stops(index, statement, holds, training):
                found.append((choice.test, not holds))
        elif isinstance(choice, cst.SimpleStatementLine):
            checks = [small.test for small in choice.body if isinstance(small, cst.Assert)]
            found += [(test, True) for test in checks if _with_one(index, flow, test, statement.scope, asked) is False]
    return [
        Minimum(node=test, index=index, wanted=wanted, anchors={"test": test})
        for test, wanted in found
        if not apart_from_training(index.statement(test), loops, flow)
    ]


def chosen_by(index: Index, flow: Flow, some: Sequence[Site], others: Sequence[Site]) -> tuple[str, str]:
    """Return the condition by which a run takes the first of some sites or of others, with its place.

    Both are "" where how many GPUs it sees may decide.
    """
    asked, first = _asked(index, flow), [*some[:1], *others[:1]]
    for here, there in meeting_ways(first[0].statement, first[1].statement, flow) if len(first) > 1 else ():
        choice = meeting([here, there])
        test = choice.node.test if choice is not None and isinstance(choice.node, cst.If) else None
        if choice is not None and test is not None and _with_one(index, flow, test, choice.scope, asked) is None:
            return index.source.code(test), index.place(test, first[0].file)
    return "", ""


def _stops(index: Index, choice: Statement, holds: bool, training: set[Statement]) -> bool:
    """Whether a choice keeps from the training where its condition holds, or does not."""
    taken, left = _branches(index, choice, holds)
    if not training.isdisjoint(taken):
        return False
    if not training.isdisjoint(left):
        return True
    ends = bool(taken) and always_leaves(taken[-1])
    return ends and (leads_to(choice, training) or not isinstance(last_of(taken[-1].node), cst.Return))


def _has_all(branch: list[Statement], some: list[Statement]) -> bool:
    """Whether a branch is the only place of some statements, such as those that move the model to its device."""
    return bool(some) and all(any(part in branch for part in here.path) for here in some)


def _branches(index: Index, choice: Statement, holds: bool) -> tuple[list[Statement], list[Statement]]:
    """Return the statements of the branch that is taken, and those of the other one."""
    assert isinstance(choice.node, cst.If)
    other = choice.node.orelse
    body, rest = index.statements_in(choice.node.body), [] if other is None else _branch(index, choice, other)
    return (body, rest) if holds else (rest, body)


def _branch(index: Index, choice: Statement, other: cst.If | cst.Else) -> list[Statement]:
    """Return the statements of an `else`, or of all that an `elif` leads to."""
    if isinstance(other, cst.Else):
        return index.statements_in(other.body)
    later = [] if other.orelse is None else _branch(index, choice, other.orelse)
    return [*index.statements_in(other.body), *later]


def _with_one(index: Index, flow: Flow, test: cst.BaseExpression, scope: Scope, asked: Set[object]) -> bool | None:
    """Return what a condition comes to where there is one GPU, or one process; None where it asks for something else.

    What else it asks for is taken to be as the training needs it.

    Args:
        asked: what the number of processes is, by what the user asks for so many.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _with_one(index, flow, test.expression, scope, asked)
        return None if inner is None else not inner
    if isinstance(test, cst.BooleanOperation):
        both = [_with_one(index, flow, side, scope, asked) for side in (test.left, test.right)]
        known = [side for side in both if side is not None]
        return (all if isinstance(test.operator, cst.And) else any)(known) if known else None
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    compare = COMPARING.get(type(test.comparisons[0].operator))
    sides = [test.left, test.comparisons[0].comparator]
    counted = [_counts(index, flow, side, scope) for side in sides]
    if compare is None or all(counted) or not any(counted):
        return None
    limit = sides[0] if counted[1] else sides[1]

    def holds(count: int, limit: int) -> bool:
        return compare(count, limit) if counted[0] else compare(limit, count)

    if isinstance(limit, cst.Integer):
        values = [holds(number, int(limit.value, 0)) for number in range(1, _MANY)]
        return values[0] if any(value is not values[0] for value in values) else None
    if asked.isdisjoint(_keys(index, flow, limit, scope)):
        return None
    several = range(2, _MANY)
    enough = {holds(number, number) for number in several}
    return None if enough & {holds(1, number) for number in several} else not enough.pop()


def _asked(index: Index, flow: Flow) -> set[object]:
    """Return what says how many processes there are to be, where the script starts them and where they meet."""
    given = [argument(call, "nprocs", 2) for call in index.calls if flow.spawns(call)]
    given += [argument(call, "world_size", 3) for call in index.calls_to("torch.distributed.init_process_group")]
    return {key for node in given if node is not None for key in _keys(index, flow, node, index.scope_of(node))}


def _keys(index: Index, flow: Flow, node: cst.BaseExpression, scope: Scope) -> Iterator[object]:
    """Yield what tells a number from others: where it comes from, or the name of an option, wherever that is read."""
    options = {name for call, _ in index.method_calls("add_argument") for name in read_as(call)}
    for origin in flow.origins(node, scope):
        made = origin.node
        option = isinstance(made, cst.Attribute) and made.attr.value in options
        yield made.attr.value if isinstance(made, cst.Attribute) and option else made


def _counts(index: Index, flow: Flow, node: cst.BaseExpression, scope: Scope) -> bool:
    """Whether an expression is the number of GPUs, or of processes, perhaps a number written down where none tells."""
    found = [one.node for origin in flow.origins(node, scope) for one in (flow.inside(origin) or [origin])]
    made = [one for one in found if not isinstance(one, cst.Integer)]
    held = [
        one.args[0].value if isinstance(one, cst.Call) and dotted(one.func) == "int" and one.args else one
        for one in made
    ]
    return bool(held) and all(
        index.environment_variable(one) == "WORLD_SIZE"
        or (isinstance(one, cst.Call) and index.qualified(one.func) in index.knowledge.named(CountsProcesses))
        for one in held
    )
