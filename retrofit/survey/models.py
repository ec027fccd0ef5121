"""Find where the wrapped model is built, and which wrappers wrap the same model."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Index, Statement, dotted, meeting
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
        finished = _finished(index, statement, target, wrappers)
        model = Model(node=finished.node, index=index, target=target)
        value = _plain_value(statement)
        if value is not None and finished is statement:
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


def _finished(index: Index, built: Statement, target: str, wrappers: list[Wrapper]) -> Statement:
    """Return the last statement of the building: a head that is replaced, pretrained weights, layers that are frozen.

    Those know the layers by the names that they have before dendrites. A checkpoint to resume from is none of them: it
    was written by a training with dendrites.
    """
    used = {wrapper.statement for wrapper in wrappers}
    used.update(index.statement(c) for c in index.calls if index.qualified(c.func).startswith("torch.optim."))
    used.update(b.statement for b in index.bindings if dotted(b.value) == target)
    finished = built
    name = re.escape(target)
    changes = re.compile(
        rf"\b{name}\.[\w.]+(\[[^\]]*\])?\s*=[^=]|\b{name}\.(load_state_dict|apply|requires_grad_|set_\w+)\("
        rf"|\bsetattr\({name}\b|\b{name}\b(.|\n)*\.requires_grad\s*="
    )
    for statement in built.following:
        if any(statement in user.path for user in used):
            break
        code = index.source.code(statement.node)
        if changes.search(code) and not re.search(r"resume|checkpoint\b|ckpt|start_epoch", code):
            finished = statement
    return finished


def _assigned(statement: Statement, origins: set[Origin], flow: Flow) -> str:
    """Return the name to which one of ``origins`` is assigned in ``statement``."""
    for binding in flow.index.bindings:
        if binding.value is None or statement not in binding.statement.path:
            continue
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
