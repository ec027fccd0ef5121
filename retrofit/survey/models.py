"""Find where the wrapped model is built, and which wrappers wrap the same model."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Statement, dotted, meeting
from retrofit.survey.sites import Model, Wrapper
from retrofit.survey.wrappers import split_moves


def group_by_model(wrappers: list[Wrapper], flow: Flow) -> list[tuple[set[Origin], list[Wrapper]]]:
    """Group whole-model wrappers by the model that they wrap."""
    groups: list[tuple[set[Origin], list[Wrapper]]] = []
    for wrapper in wrappers:
        operand = wrapper.anchors["operand"]
        assert isinstance(operand, cst.BaseExpression)
        origins = set(flow.origins(operand, wrapper.scope))
        for known, members in groups:
            if not known.isdisjoint(origins):
                known |= origins
                members.append(wrapper)
                break
        else:
            groups.append((origins, [wrapper]))
    return groups


def find_models(origins: set[Origin], wrappers: list[Wrapper], flow: Flow) -> list[Model]:
    """Return the places after which the model is there, one where all ways of building it meet before it is wrapped.

    Args:
        origins: the expressions that build the model.
        wrappers: the wrappers of this model.
    """
    index = flow.index
    wrapped_in_place = [w for w in wrappers if not w.module]
    if wrapped_in_place:
        return [_built_in_wrapper(wrapper, flow) for wrapper in wrapped_in_place]
    statements = sorted({index.statement(o.node) for o in origins}, key=index.statements.index)
    joint = meeting(statements)
    if joint is not None and not any(joint in wrapper.statement.path for wrapper in wrappers):
        statements = [joint]
    models = []
    for statement in statements:
        target = _assigned(statement, origins, flow) or wrappers[0].module
        model = Model(node=statement.node, index=index, target=target)
        value = _plain_value(statement)
        if value is not None:
            built, moved = split_moves(index, value)
            if moved:
                model.built, model.moved = built, moved
        models.append(model)
    return models


def _built_in_wrapper(wrapper: Wrapper, flow: Flow) -> Model:
    operand = wrapper.anchors["operand"]
    assert isinstance(operand, cst.BaseExpression)
    built, moved = split_moves(flow.index, operand)
    return Model(
        node=wrapper.statement.node,
        index=flow.index,
        target=wrapper.target,
        built=built,
        moved=moved,
        in_wrapper=True,
    )


def _assigned(statement: Statement, origins: set[Origin], flow: Flow) -> str:
    """Return the name to which one of ``origins`` is assigned in ``statement``."""
    for binding in flow.index.bindings:
        if statement in binding.statement.path and binding.value is not None:
            if not origins.isdisjoint(flow.origins(binding.value, binding.statement.scope)):
                return binding.target
    return ""


def _plain_value(statement: Statement) -> cst.BaseExpression | None:
    node = statement.node
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
        small = node.body[0]
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and dotted(small.targets[0].target):
            return small.value
    return None
