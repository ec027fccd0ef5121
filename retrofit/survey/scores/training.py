"""What is left where nothing is validated: what the training tells of itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeGuard

import libcst as cst

from retrofit.survey.branches import exclude_each_other
from retrofit.survey.counters import changes
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import dotted, mentions, method_name, names_in, receiver
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.carried import Carried
from retrofit.survey.scores.filling import EMPTIES, FILLS, begins
from retrofit.survey.scores.kinds import Kinds
from retrofit.survey.scores.making import EVALUATED, TRAINED, Making
from retrofit.survey.scores.site import can_be_brought
from retrofit.survey.scores.told import Told
from retrofit.survey.scores.validation import call_within, filled_items, returned_values
from retrofit.survey.scores.values import bare_of, in_loop, root_of, target_node, written_items
from retrofit.survey.scores.words import AVERAGES, NO_VALUE, direction_of
from retrofit.survey.sites.loop import EpochLoop


def find_trained(
    index: Index, flow: Flow, loops: list[EpochLoop], aside: Collection[Statement] = ()
) -> list[tuple[str, str, str]]:
    """Return (expression, direction, place) of what the training tells of itself that the loop can have.

    Args:
        aside: statements in which nothing is offered, as it is to train without them.
    """
    found: dict[str, tuple[str, str]] = {}
    sums: dict[str, tuple[str, str]] = {}  # of all epochs so far, which say little of one
    for loop in loops:
        making, carried = Making(index, flow, loop), Carried(index, flow, loop)
        trains = {part.scope for part in loop.training} & called_in(index, flow, loop.statement)
        last = [loss for loss in _of_last_batch(index, flow, loop) if not _is_within(index, loss, aside)]
        for node, place in _over_epochs(index, loop, trains, last):
            name = index.source.code(node)
            direction = direction_of(name)
            if not direction or NO_VALUE.search(name) or _is_within(index, place, aside):
                continue
            made = making.of(node)
            if made != TRAINED and (made or _copies(place)):
                continue
            if index.scope_of(node) is loop.scope or can_be_brought(index, flow, loop, name):
                kind = found if carried.of(node, index.scope_of(node)) is None else sums
                kind.setdefault(name, (direction, index.place(place, loop.file)))
        for name, place in _returned(index, flow, loop, trains):
            if making.of(cst.parse_expression(name)) != EVALUATED:
                found.setdefault(name, (direction_of(name), index.place(place, loop.file)))
        if found:
            continue
        told = Told(index, flow, loop)
        shown = [one for scope in trains for one in told.by(scope) if direction_of(one[0])]
        alone = [(index.source.code(one), one) for one in last]
        for ways, which in ((shown, ""), (_means(index, loop, trains, last), ""), (alone, ", of the last batch alone")):
            for name, part in ways if not found else ():
                if _is_within(index, part, aside):
                    continue
                within = in_loop(index, loop, part)
                if within or (index.scope_of(part) is not loop.scope and can_be_brought(index, flow, loop, name)):
                    at = f"{index.place(part, loop.file)}{which}"
                    found.setdefault(name, (direction_of(name) or "min", at))
    offered = found or sums
    read = [(b.target, one) for b in index.bindings if b.target in offered and b.value for one in names_in(b.value)]
    parts = {one.partition(".")[0] for target, one in read if one.partition(".")[0] != target}  # made into another one
    return [(name, *offered[name]) for name in sorted(offered, key=lambda name: name in parts)]


def _is_within(index: Index, node: cst.CSTNode, some: Collection[Statement]) -> bool:
    return any(part in some for part in index.statement(node).path)


def _returned(index: Index, flow: Flow, loop: EpochLoop, trains: set[Scope]) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield what the epoch loop has of measures in what a function that trains returns, and where these are given.

    Of several the whole goes by the shortest name: `loss` beside `loss_box` and `loss_mask`.
    """
    for binding in index.bindings:
        call = call_within(binding.value) if in_loop(index, loop, binding.statement.node) else None
        function = flow.called(call) if call is not None else None
        if call is None or function is None or function not in trains or not binding.target.isidentifier():
            continue
        keys: dict[str, cst.CSTNode] = {}
        for value in returned_values(index, flow, call, binding.item):
            keys |= dict(_keys(index, function, value))
        keys |= {key: one.statement.node for key, one in filled_items(index, flow, call, binding.item)}
        for key in sorted(filter(direction_of, keys), key=len):
            yield f"{binding.target}[{key}]", keys[key]


def _keys(index: Index, function: Scope, value: cst.BaseExpression) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield the codes of the keys that a dict has, also of one that is made of another's, and where they are given."""
    if isinstance(value, cst.Dict):  # of keys that are no literals the caller may know nothing
        yield from ((key, part) for key, part in written_items(index, value) if key[:1] in "\"'")
    held = receiver(value.for_in.iter) if isinstance(value, cst.DictComp) else None
    name = root_of(held) if held is not None else ""
    for bound in index.bound([name], function) if name else ():
        yield from _keys(index, function, bound.value) if bound.value is not None else ()
    for call, filled in index.method_calls(*FILLS):
        if name and index.scope_of(call) is function and root_of(filled) == name:
            yield from ((repr(arg.keyword.value), arg) for arg in call.args if arg.keyword is not None)


def _means(
    index: Index, loop: EpochLoop, trains: set[Scope], learnt: list[cst.BaseExpression]
) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield the means of the losses that a function which trains collects from its batches in a list of its own."""
    names = [*map(index.source.code, learnt)]
    for added in index.appended:
        name, function, value = added.target.removesuffix("[-1]"), added.statement.scope, added.value
        if function not in trains or value is None or not (mentions(value, names) and _is_number(value, names)):
            continue
        begun = index.bound([name], function)
        emptied = [
            one
            for one, held in index.method_calls(*EMPTIES)
            if index.scope_of(one) is function and dotted(held) == name
        ]
        if begun and not emptied and not any(_of_batch(one, loop) for one in begun):
            yield f"sum({name}) / len({name})", value


def _is_number(value: cst.BaseExpression, learnt: list[str]) -> bool:
    """Whether an expression surely makes a number: `float(loss)`, `mean(loss).item()`, `loss.detach().cpu()`."""
    if bare_of(value) is not value:
        return True
    while (held := receiver(value)) is not None:
        value = held
    return dotted(value) in learnt


def _of_last_batch(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[cst.BaseExpression]:
    """Yield the losses of which the training takes the gradients, but those whose names are given others later.

    An object is given its loss: `optimizer.backward(loss)`.
    """
    kinds = Kinds(index, flow, loop)
    passes = [(call, held) for call, held in index.method_calls("backward") if index.statement(call) in loop.training]
    given = [call.args[0].value if call.args and kinds.of(held)[0] else held for call, held in passes]
    taken = [(index.statement(call), loss) for (call, _), loss in zip(passes, given, strict=True)]
    scaled = [(here, loss.args[0].value if _scales(loss) else loss) for here, loss in taken]
    losses = [(here, loss) for here, loss in scaled if isinstance(loss, cst.Name)]
    for here, loss in losses:
        same = [one for one, other in losses if one.scope is here.scope and dotted(other) == dotted(loss)]
        if not any(_is_another_later(index, loop, one, loss) for one in same):
            yield loss


def _scales(loss: cst.BaseExpression) -> TypeGuard[cst.Call]:
    """Whether a loss is one that a gradient scaler multiplies: `scaler.scale(loss)`."""
    return isinstance(loss, cst.Call) and method_name(loss) == "scale" and len(loss.args) == 1


def _is_another_later(index: Index, loop: EpochLoop, here: Statement, loss: cst.Name) -> bool:
    """Whether a loss's name is given what is not made of it after its gradients were taken, on a way that goes on."""
    return any(
        binding.statement.order > here.order
        and (here.scope is not loop.scope or loop.statement in binding.statement.path)
        and not (binding.value is None or mentions(binding.value, [loss.value]))
        and not exclude_each_other(binding.statement, here)
        for binding in index.bound([loss.value], here.scope)
    )


def _over_epochs(
    index: Index, loop: EpochLoop, trains: set[Scope], learnt: list[cst.BaseExpression]
) -> Iterator[tuple[cst.BaseExpression, cst.CSTNode]]:
    """Yield what the training adds up over its batches or makes of them, and where."""
    bindings = [b for b in index.bindings if in_loop(index, loop, b.statement.node) or b.statement.scope in trains]
    for attribute in index.attributes:
        scope = index.scope_of(attribute)
        inside = in_loop(index, loop, attribute) or scope in trains
        if inside and attribute.attr.value in AVERAGES and isinstance(attribute.value, cst.Name):
            bound = [b for b in bindings if b.target == attribute.value.value and b.statement.scope is scope]
            if bound and all(_of_batch(b, loop) and not _adds(b) for b in bound):
                continue  # the mean of a batch's own loss
            whole = index.parents[attribute]
            yield (whole if isinstance(whole, cst.Call) and whole.func is attribute else attribute), attribute
    #: What is added up, and what of that begins anew among the batches, so that it is a part's when they are over.
    added = {(b.target, b.statement.scope) for b in bindings if _adds(b)}
    begun = {(b.target, b.statement.scope) for b in bindings if _of_batch(b, loop) and begins(index, b)}
    for binding in bindings:
        here, name = binding.statement, binding.target
        if not name.isidentifier():
            continue
        made = {(one, here.scope) for one in names_in(binding.value)} if binding.value is not None else set()
        every = isinstance(here.path[-2].node, cst.If) and not added.isdisjoint(made)  # so many steps
        summed = _adds(binding) and (name, here.scope) not in begun
        alone = not (_of_batch(binding, loop) or begins(index, binding) or binding.value is None)
        if summed or alone or every:
            yield target_node(index, here, name), here.node
    yield from _items_over_epochs(index, loop, [*map(index.source.code, learnt)], bindings, trains)


def _items_over_epochs(
    index: Index, loop: EpochLoop, learnt: list[str], bindings: list[Binding], trains: set[Scope]
) -> Iterator[tuple[cst.BaseExpression, cst.CSTNode]]:
    """Yield the items of what begins anew in each epoch to which its batches add, those of what is learnt first.

    Args:
        learnt: the losses of which the training takes the gradients.
        bindings: what an epoch gives to names.
        trains: the functions that train.
    """
    anew = {(b.target, b.statement.scope) for b in bindings if not _of_batch(b, loop)}
    anew -= {(b.target, b.statement.scope) for b in bindings if _of_batch(b, loop)}
    inside = [b for b in index.items if in_loop(index, loop, b.statement.node) or b.statement.scope in trains]
    added = [one for b in inside if _adds(b) and _of_batch(b, loop) for one in changes(b)]
    begun = {(b.target, b.statement.scope) for b in inside if _begins(b, loop)}
    code = index.source.code
    targets = [(one, one.target, index.scope_of(one)) for one in added]
    held = [one for one, of, scope in targets if (root_of(of), scope) in anew or (code(of), scope) in begun]
    for one in sorted(held, key=lambda one: not mentions(one.value, learnt)):
        if isinstance(one.target, cst.Subscript) and not any(names_in(one.target.slice[0])):
            yield one.target, index.statement(one).node


def _copies(place: cst.CSTNode) -> bool:
    """Whether a statement gives a name what another one has, as a number of the configuration."""
    small = place.body[0] if isinstance(place, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Assign) and dotted(small.value) is not None


def _of_batch(binding: Binding, loop: EpochLoop) -> bool:
    """Whether a statement runs once a batch."""
    return any(isinstance(one, (cst.For, cst.While)) for one in _around(binding, loop))


def _around(binding: Binding, loop: EpochLoop) -> list[cst.CSTNode]:
    """Return what is around a statement within the loop's turn, or within its function."""
    here = binding.statement
    around = here.path[here.path.index(loop.statement) + 1 :] if here.scope is loop.scope else here.path
    return [part.node for part in around if part.scope is here.scope]


def _begins(binding: Binding, loop: EpochLoop) -> bool:
    """Whether a statement gives an item a value in each epoch that is not made of its old one."""
    if _adds(binding) or any(isinstance(one, (cst.For, cst.While, cst.If)) for one in _around(binding, loop)):
        return False
    return binding.value is not None and not mentions(binding.value, [binding.target.partition("[")[0]])


def _adds(binding: Binding) -> bool:
    """Whether a statement adds to a variable: `total += loss.item()`."""
    return any(isinstance(one.operator, cst.AddAssign) for one in changes(binding))
