"""Find what has an item for each of a model's parameters by its name, as an average of them has."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.names import Variable
from retrofit.survey.nodes import dotted, last_name, method_name, receiver
from retrofit.survey.scopes import Statement


def by_names(index: Index, flow: Flow, training: Collection[Statement]) -> Iterator[Variable]:
    """Yield what has an item for each parameter by its name, such as an average: new dendrites would have none.

    What weights to begin with are taken out of has no further names to know: what is filled before the training counts
    where that reads it.

    Args:
        training: the epoch loops.
    """
    scopes = called_in(index, flow, *training)

    def trains(node: cst.CSTNode) -> bool:
        here = index.statement(node)
        return here.scope in scopes or any(part in training for part in here.path)

    def is_read(variable: Variable) -> bool:
        name = variable[1].rpartition(".")[2]
        bound = [b for b in index.bindings if b.target == variable[1] and trains(b.statement.node)]
        if "." not in variable[1] and any(flow.variable(b.target, b.statement.scope) == variable for b in bound):
            return False  # the training has another value under that name
        nodes = [*index.nodes_of(cst.Attribute), *index.nodes_of(cst.Name)]
        named = (node for node in nodes if last_name(node) == name and trains(node))
        return any(flow.variable(dotted(node) or "", index.scope_of(node)) == variable for node in named)

    for loop in index.nodes_of(cst.For):
        call = receiver(loop.iter) if method_name(loop.iter) == "items" else loop.iter
        name = loop.target.elements[0].value if isinstance(loop.target, cst.Tuple) else loop.target
        if method_name(call) not in ("named_parameters", "state_dict", "named_buffers"):
            continue
        for item in index.nodes_of(cst.Subscript):
            key = item.slice[0].slice
            among = isinstance(key, cst.Index) and dotted(key.value) == dotted(name) and loop in index.ancestors(item)
            variable = flow.variable(dotted(item.value) or "", index.scope_of(item))
            filled = isinstance(index.parents[item], cst.AssignTarget)
            if among and variable[1] and (trains(loop) or (filled and is_read(variable))):
                yield variable
