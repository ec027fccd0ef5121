"""Find an optimizer that no name holds, as it is built where it is given away: `Engine(model, SGD(...))`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import libcst as cst

from retrofit.survey.backwards import has_own_tensors
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.constructions import is_own_class, is_torchs, is_torchs_class, trains_another
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.optimizers import finished_after
from retrofit.survey.order import apart_from_training, beside_training
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.call import CallSite
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.model import Model
from retrofit.survey.sites.optimizer import Optimizer, Rebuilding
from retrofit.survey.targets import target_of

#: What may build any number of them, or none.
_REPEATING = (cst.BaseComp, cst.Lambda)


def nameless_optimizers(index: Index) -> list[CallSite]:
    """Return where torch's optimizers are built that no name holds, such as those of a list or of a name each."""
    made = [call for call in index.calls if is_torchs_class(index, call.func) and not target_of(index, call)]
    return [CallSite(node=call, index=index) for call in made]


def unnamed_optimizers(
    index: Index, flow: Flow, model: set[Origin], models: list[Model], loops: list[EpochLoop], handover: frozenset[str]
) -> list[Optimizer]:
    """Return the optimizer that trains the model and is given away where it is built; nothing where there are several.

    Args:
        model: where the model is built.
        models: the places after which it is there.
        loops: the epoch loops.
        handover: qualified names of functions by which a script gives its optimizer to the recipe's library.
    """
    if any(index.qualified(call.func) in handover for call in index.calls):
        return []  # the one of another name, or this one
    made = [call for call in index.calls if is_torchs(index, flow, call) or is_own_class(flow, call)]
    made = [call for call in made if not target_of(index, call)]
    made = [
        call
        for call in made
        if not has_own_tensors(index, call)
        and not trains_another(index, flow, call, model)
        and _before_training(index.statement(call), loops, flow)
    ]
    places = [index.statement(call) for call in made]
    late = any(finished_after(one, place) for one in models for place in places)
    if not made or late or not _one_runs(index, made) or not all(_runs_once(flow, call) for call in made):
        return []
    first, *others = made
    found = Optimizer(
        node=first,
        index=index,
        target="",
        name=index.source.code(first.func),
        bound=[],
        keeps="it has no name of its own",
        anchors={"built": first},
    )
    found.rebuilt = [
        Rebuilding(node=one, index=index, target="", handed_over=False, anchors={"built": one}) for one in others
    ]
    return [found]


def _before_training(place: Statement, loops: list[EpochLoop], flow: Flow) -> bool:
    """Whether a statement runs on a way that leads to the epoch loop, and not only after that or in a turn of it."""
    return bool(beside_training(place, loops, flow)) and not apart_from_training(place, loops, flow)


def _one_runs(index: Index, calls: Sequence[cst.Call]) -> bool:
    """Whether a run takes at most one of some calls, as far as branches tell."""

    def apart(first: cst.Call, second: cst.Call) -> bool:
        around, other = ({one, *index.ancestors(one)} for one in (first, second))
        chosen = [node for node in around & other if isinstance(node, cst.IfExp)]
        return any({node.body, node.orelse} <= around ^ other for node in chosen)

    return all(
        apart(*pair) or exclude_each_other(index.statement(pair[0]), index.statement(pair[1]))
        for pair in combinations(calls, 2)
    )


def _runs_once(flow: Flow, call: cst.Call) -> bool:
    """Whether a call runs once in a run, as far as is seen: in no loop, and in a function of which that holds."""
    seen = set()
    while True:
        place = flow.index.statement(call)
        looped = any(isinstance(part.node, (cst.For, cst.While)) for part in (place, *place.around))
        if looped or any(isinstance(around, _REPEATING) for around in flow.index.ancestors(call)):
            return False
        callers = list(dict.fromkeys(flow.callers(place.scope)))
        if not callers or place.scope in seen:
            return not callers
        if not _one_runs(flow.index, callers):
            return False
        seen.add(place.scope)
        call = callers[0]
