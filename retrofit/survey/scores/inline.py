"""What the epoch loop itself makes of its validation."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.survey.counters import changes
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, mentions, named_in, names_in, nodes_in
from retrofit.survey.scopes import Statement
from retrofit.survey.scores.carried import Carried
from retrofit.survey.scores.filling import FILLS
from retrofit.survey.scores.making import EVALUATED, TRAINED, Making, without_gradients
from retrofit.survey.scores.validation import of_batches, under_condition
from retrofit.survey.scores.values import (
    bare_of,
    bindings_of,
    code_of,
    in_loop,
    mean_of,
    of_phases,
    only_begins,
    root_of,
    taken_by_turn,
    target_node,
)
from retrofit.survey.scores.words import AVERAGES, Candidate, direction_of, told_by_name
from retrofit.survey.sites.loop import EpochLoop


def inline_scores(index: Index, flow: Flow, loop: EpochLoop, making: Making) -> list[Candidate]:
    """What the loop itself makes of its validation, as far as its name tells that it is a score.

    What it computes comes before sums that it only divides, `loss /= n`, and before averages that a meter has; and each
    before what is of all epochs so far, as the list to save.
    """
    computed: list[Candidate] = []
    others: list[Candidate] = []
    for binding in index.bindings:
        here, named = binding.statement, direction_of(binding.target)
        if not named or "." in binding.target or not in_loop(index, loop, here.node) or only_begins(index, binding):
            continue
        value = binding.value
        made = isinstance(value, cst.Call if binding.item is not None else (cst.BinaryOperation, cst.Call))
        average = isinstance(value, cst.Attribute) and value.attr.value in AVERAGES
        inner = here.path[here.path.index(loop.statement) + 1 :]
        around = [part for part in inner if isinstance(part.node, (cst.For, cst.While))]
        around = [part for part in around if not of_phases(index, part.node)]
        of_turn = around == [] or (around[-1] in loop.inner and under_condition(here, around[-1]))
        divided = any(isinstance(one.operator, cst.DivideAssign) for one in changes(binding))
        if not of_turn or not (made or average or divided):
            continue
        given = isinstance(value, cst.Call) and dotted(value.func) is not None  # rather than made here
        computed_here = not given and making.given_by(here, binding.target) == EVALUATED
        if not computed_here and making.around(here) != EVALUATED:
            continue
        node, evidence = target_node(index, here, binding.target), f"{index.place(here.node)}: its name"
        (computed if made else others).append(Candidate(node, told_by_name(binding.target), evidence))
    carried = Carried(index, flow, loop) if len(computed) + len(others) > 1 else None
    fresh = [[c for c in some if not (carried and carried.of(c.node, loop.scope))] for some in (computed, others)]
    return fresh[0] or fresh[1] or computed or others


def told_values(
    index: Index, loop: EpochLoop, making: Making, made: set[str]
) -> Iterator[tuple[str, cst.BaseExpression]]:
    """Yield (expression, node) of what the epoch loop logs or prints of its validation, but for a batch's own.

    Args:
        made: the variables that hold what the validation gives.
    """
    code, known = index.source.code, set(made)
    bound = [b for b in index.bindings if b.value is not None and in_loop(index, loop, b.statement.node)]
    for binding in bound:
        around = [part.node for part in binding.statement.ancestors if part.scope is loop.scope]
        if isinstance(binding.value, cst.Call) and any(without_gradients(index, node) for node in around):
            known.add(binding.target)
    while more := {b.target for b in bound if b.value and not known.isdisjoint(names_in(b.value, False))} - known:
        known |= more

    def of_one_batch(node: cst.CSTNode) -> bool:
        bound = bindings_of(index, loop, root_of(node)) if isinstance(node, cst.BaseExpression) else []
        within = {b: of_batches(index, loop, b.statement) for b in bound}
        trained = (making.given_by(b.statement, b.target) == TRAINED for b, inner in within.items() if not inner)
        return any(within.values()) and all(trained)

    for call in index.calls:
        if not in_loop(index, loop, call) or not index.knowledge.logs(dotted(call.func) or ""):
            continue
        parts = [part for arg in call.args for part in named_in(arg.value, called=False)]
        parts += [bare_of(part) for part in nodes_in(call) if isinstance(part, cst.Call)]  # `loss.item()`
        for part in (part for part in parts if not of_one_batch(part)):
            outer = index.parents.get(part)
            if isinstance(outer, cst.Subscript) and outer.value is part and dotted(part) in known:
                if not taken_by_turn(index, code_of(index, loop), outer):
                    yield code(outer), outer
            elif isinstance(part, cst.Name) and part.value in known - made:
                yield part.value, part


def collected_values(index: Index, loop: EpochLoop, making: Making) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield (expression, node) of what a validation in the epoch loop itself adds up over its batches."""
    for batches in index.loops:
        node, code = batches.node, index.source.code
        inside = in_loop(index, loop, node) and batches is not loop.statement and batches not in loop.inner
        if not isinstance(node, cst.For) or not inside or of_batches(index, loop, batches):
            continue
        if making.around(batches) != EVALUATED:
            continue
        yield from _made_of_sums(index, batches)
        within = [b for b in index.bindings if batches in b.statement.path and changes(b)]
        added = {b.target: b.statement.node for b in within if direction_of(b.target) and "." not in b.target}
        filled = {
            dotted(held)
            for call, held in index.method_calls(*FILLS)
            if isinstance(index.parents[call], cst.Expr) and batches in index.statement(call).path
        }
        averages: dict[str, dict[str, cst.CSTNode]] = {}
        for name in _named_after(index, loop, batches, {*added, *filled}):
            average = _average_of(index, name)
            held = dotted(name) or ""
            bound = bindings_of(index, loop, held)
            if average is not None:
                anew = any(b.statement is index.statement(name) for b in bound)
                makers = [b.value.func for b in bound if isinstance(b.value, cst.Call)]
                several = "[...]" if any("dict" in code(maker).lower() for maker in makers) else ""
                written = ((held if anew else index.target_of(average)) or code(average)) + several
                averages.setdefault(held, {}).setdefault(written, average)
        for total, statement in added.items():
            averages.setdefault(total, {total: statement})
        for made in averages.values():
            yield from made.items()


def _made_of_sums(index: Index, batches: Statement) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield (name, statement) of what a loop makes at some batches of what it gathers, such as the mean at the last."""
    within = [b for b in (*index.bindings, *index.items) if batches in b.statement.path]
    filled = [held for call, held in index.method_calls(*FILLS) if batches in index.statement(call).path]
    gathered = {*(b.target.partition("[")[0] for b in within if changes(b)), *map(root_of, filled)}
    given = [(b, b.value) for b in within if b.value is not None and b.item is None]
    parts = (cst.Name, cst.Attribute, cst.Subscript)
    gathered |= {b.target for b, value in given if isinstance(value, parts) and root_of(value) in gathered}
    for binding, value in given:
        named = direction_of(binding.target) and binding.target.isidentifier()
        made = isinstance(value, (cst.BinaryOperation, cst.Call)) and mentions(value, gathered - {binding.target})
        if named and made and under_condition(binding.statement, batches):
            yield binding.target, binding.statement.node


def _named_after(
    index: Index, loop: EpochLoop, place: Statement, names: set[str | None]
) -> list[cst.Name | cst.Attribute]:
    """Return where the epoch loop's body takes one of the names after a loop, or a meter's mean so far within it."""
    found = [
        node
        for node, parent in index.parents.items()
        if isinstance(node, (cst.Name, cst.Attribute)) and dotted(node) in names
        if not isinstance(parent, cst.AssignTarget)
        if in_loop(index, loop, node)
    ]
    means = {one.value for one in index.attributes if one.attr.value in AVERAGES}
    found = [n for n in found if n in means or place not in index.statement(n).path]
    return [n for n in found if index.statement(n).order > place.order]


def _average_of(index: Index, name: cst.Name | cst.Attribute) -> cst.BaseExpression | None:
    """Return the `meter.avg`, `meter.mean()`, `np.mean(x)`, `sum(x) / n` or `100 * x / n` around a name."""
    parent = index.parents[name]
    if isinstance(parent, cst.Attribute) and parent.value is name and parent.attr.value in AVERAGES:
        outer = index.parents[parent]
        return outer if isinstance(outer, cst.Call) and outer.func is parent else parent
    mean = mean_of(index, name)
    if mean is not None:
        return mean
    summed = index.parents[parent] if isinstance(parent, cst.Arg) else None
    here: cst.CSTNode = summed if isinstance(summed, cst.Call) and dotted(summed.func) == "sum" else name
    found: cst.BaseExpression | None = None
    while isinstance(outer := index.parents[here], cst.BinaryOperation):
        if not isinstance(outer.operator, (cst.Divide, cst.Multiply)) or (outer.right is here and found is not None):
            break
        found = outer if found is not None or isinstance(outer.operator, cst.Divide) else None
        here = outer
    return found
