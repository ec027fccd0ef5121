"""Find where ranks may take unequal steps: each goes through its own share of something, or past its epochs' ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.holding import Holding
from retrofit.survey.index import Index
from retrofit.survey.order import ways_to
from retrofit.survey.ranks import is_rank
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.loop import Backward, EpochLoop


def find_shares(index: Index, flow: Flow, loop: EpochLoop, backwards: Iterable[Backward]) -> list[Site]:
    """Return what takes every rank's own share of something that the loops in an epoch loop go through.

    Nothing where the script lets a rank wait that has no more (`with model.join():`).

    Args:
        loop: the epoch loop.
        backwards: the backward passes.
    """
    shares = [] if any(_joining(flow)) else list(_shares(flow))
    ways = [way for one in backwards if shares for way in flow.enclosing_loops(one.statement) if loop.statement in way]
    inner = {part.node for way in ways for part in way[: way.index(loop.statement)]}
    gone = [node.iter for node in inner if isinstance(node, cst.For)]
    found = [one for one in shares if any(Holding([one], flow).holds(node) for node in gone)]
    return [Site(node=one, index=index) for one in found]


def find_joins(index: Index, flow: Flow, loop: EpochLoop) -> list[Site]:
    """Return the contexts around an epoch loop in which a rank that has no more batches lets no other one wait.

    Until such a context ends, it goes on with its next epochs, while others are still in earlier ones.
    """
    ways = [way for some in ways_to(loop.statement, flow).values() for way in some]
    around = [one for one in _joining(flow) if any(index.statement(one) in way.path[:-1] for way in ways)]
    return [Site(node=one, index=index) for one in around]


def _joining(flow: Flow) -> Iterator[cst.BaseExpression]:
    """Yield what `with` statements enter that is torch's context for uneven inputs: `Join([model])`, `model.join()`."""
    index = flow.index
    made = [*index.calls_to("torch.distributed.algorithms.join.Join", "torch.distributed.algorithms.Join")]
    made += [call for call, _ in index.method_calls("join")]
    for node in index.nodes_of(cst.WithItem) if made else ():
        if any(origin.node in made for origin in flow.origins(node.item, index.scope_of(node))):
            yield node.item


def _shares(flow: Flow) -> Iterator[cst.BaseExpression]:
    """Yield `files[rank::n]`, `range(rank, len(files), n)` and `[f for i, f in enumerate(files) if i % n == rank]`."""
    index = flow.index
    for node in index.nodes_of(cst.Subscript):
        part = node.slice[0].slice
        if isinstance(part, cst.Slice) and part.step is not None and part.upper is None and part.lower is not None:
            yield from [node] if is_rank(flow, part.lower) else []
    for call in index.calls_to("range"):
        if len(call.args) == 3 and is_rank(flow, call.args[0].value):
            yield call
    for made in (*index.nodes_of(cst.ListComp), *index.nodes_of(cst.GeneratorExp)):
        tests = [one.test for one in made.for_in.ifs]
        if any(_is_turn(flow, test) for test in tests):
            yield made


def _is_turn(flow: Flow, test: cst.BaseExpression) -> bool:
    """Whether a condition is `i % n == rank`."""
    if not isinstance(test, cst.Comparison) or not isinstance(test.left, cst.BinaryOperation):
        return False
    return isinstance(test.left.operator, cst.Modulo) and is_rank(flow, test.comparisons[0].comparator)
