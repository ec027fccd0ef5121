"""Find where the wrapped model is built, and which wrappers wrap the same model."""

from __future__ import annotations

import re
from itertools import combinations

import libcst as cst

from retrofit import torch_api
from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Index, Statement, dotted, meeting
from retrofit.survey.sites import EpochLoop, Model, Optimizer, Wrapper
from retrofit.survey.wrappers import split_moves, wrapper_kind


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


def is_frozen(origins: set[Origin], flow: Flow) -> bool:
    """Whether a model is frozen as a whole, whatever the options, and does not follow another one's parameters either.

    Args:
        origins: where the model is built.
    """
    index = flow.index

    def of_it(node: cst.BaseExpression, method: str) -> bool:
        """Whether an expression is a call of that method of the model."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        return node.func.attr.value == method and not origins.isdisjoint(
            flow.origins(node.func.value, index.scope_of(node))
        )

    zipped = [arg.value for call in index.calls if index.qualified(call.func) == "zip" for arg in call.args]
    if any(of_it(part, "parameters") for part in zipped):
        return False
    freezing = [
        statement
        for statement in index.loops
        if isinstance(statement.node, cst.For)
        and of_it(statement.node.iter, "parameters")
        and re.search(r"requires_grad\s*=\s*False|requires_grad_\(False\)", index.source.code(statement.node.body))
    ]
    freezing += [
        index.statement(call)
        for call in index.calls
        if of_it(call, "requires_grad_") and [index.source.code(arg.value) for arg in call.args] == ["False"]
    ]
    return any(all(not isinstance(part.node, cst.If) for part in statement.path) for statement in freezing)


def find_models(
    origins: set[Origin], wrappers: list[Wrapper], flow: Flow, loops: list[EpochLoop] | None = None
) -> list[Model]:
    """Return the places after which the model is there, one where all ways of building it meet before it is wrapped.

    Args:
        origins: the expressions that build the model.
        wrappers: the wrappers of this model.
        loops: the epoch loops; nothing that leads to one, or comes after it, has a part in the building.
    """
    index = flow.index
    training = {part for part in leading_to(loops or [], flow) if not defines(part)}
    over = _over(training)
    origins = {o for o in origins if over.isdisjoint(index.statement(o.node).path)} or origins
    wrapped_in_place = [w for w in wrappers if not w.module]
    if wrapped_in_place:
        return [_built_in_wrapper(wrapper, flow) for wrapper in wrapped_in_place]
    statements = sorted(
        {index.statement(o.node) for o in _builders(origins, wrappers, flow)}, key=lambda statement: statement.order
    )
    if not statements:
        return []
    joint = meeting(statements)
    if joint is not None and not any(joint in wrapper.statement.path for wrapper in wrappers):
        statements = [joint]
    models = []
    for statement in statements:
        target = _assigned(statement, flow.closure(origins), flow)
        if not target:
            if wrappers[0].module not in wrappers[0].scope.parameters:
                return []
            return [
                Model(node=w.statement.node, index=index, target=w.module, side="before") for w in wrappers if w.first
            ]
        finished = _finished(flow, statement, target, wrappers, training)
        model = Model(node=finished.node, index=index, target=target)
        value = _plain_value(statement)
        if value is not None and finished is statement:
            built, moved = split_moves(index, value)
            if moved:
                model.built, model.moved = built, moved
        models.append(model)
    return models


def disorder(models: list[Model], optimizers: list[Optimizer], origins: set[Origin], flow: Flow) -> str:
    """Return why perforating the model where it is built would not do, "" where it would.

    Args:
        models: the places after which the model is there.
        optimizers: those that train it.
        origins: where the model is built.
    """
    for optimizer in optimizers:
        part = _part(optimizer, origins, flow)
        if part:
            return (
                f"the optimizer at {optimizer.place()} takes the parameters of `{part}`, out of which the model is "
                "made, so it would miss its dendrites; take them from the model"
            )
        if optimizer.keeps and optimizer.factory_made:
            return (
                f"the parameters of the optimizer at line {optimizer.line} come out of the call that builds the model"
            )
    for model in models:
        root = model.target.partition(".")[0]
        if root != "self" and root not in flow.variable(root, model.scope)[0].names:
            return f"the model is built at {model.place()}, but `{model.target}` is no name there"
        for optimizer in optimizers:
            here, there = optimizer.statement, model.statement
            if model.side == "before" and here.scope is not there.scope and not model.in_wrapper:
                return f"the model is a parameter at {model.place()}, the optimizer is built at {optimizer.place()}"
            early = here.order <= there.order
            if here.scope is there.scope and early and model.side == "after":
                return f"the optimizer at {optimizer.place()} is built before the model is finished at {model.place()}"
    if any(_one_after_the_other(a.statement, b.statement) for a, b in combinations(models, 2)):
        return f"the model is built in several steps, at lines {', '.join(str(model.line) for model in models)}"
    if len({id(model.scope) for model in models}) > 1:
        return f"the model is built in several functions, at lines {', '.join(str(model.line) for model in models)}"
    return ""


def _part(optimizer: Optimizer, origins: set[Origin], flow: Flow) -> str:
    """Return the name of a module given to the model's construction whose own parameters an optimizer takes, or ""."""
    index, scope = flow.index, optimizer.scope
    word = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
    given = {
        flow.variable(name, index.scope_of(origin.node))
        for origin in origins
        if isinstance(origin.node, cst.Call)
        for arg in origin.node.args
        for name in word.findall(index.source.code(arg.value))
    }
    whole = set(flow.names_of(origins, scope))
    mentioned = set(word.findall(index.source.code(optimizer.node)))
    for call in index.calls:
        name, _, method = (dotted(call.func) or "").rpartition(".")
        if method != "parameters" or not name.isidentifier() or name in whole or index.scope_of(call) is not scope:
            continue
        place = index.statement(call)
        filled = re.match(r"\s*(\w+)\s*(=|\+=|\.(append|extend)\()", index.source.code(place.node))
        taken = any(part is optimizer.node for part in index.ancestors(call))
        if (taken or (filled and filled[1] in mentioned)) and flow.variable(name, scope) in given:
            return name
    return ""


def late_weights(origins: set[Origin], wrappers: list[Wrapper], loops: list[EpochLoop], flow: Flow) -> str:
    """Return what copies weights by their names into the model between its wrapper and the epoch loop, "" for nothing.

    The layers have other names by then, so such a function would find none. `load_state_dict` is none of them: the
    recipe's helper teaches it the names from before.
    """
    index = flow.index
    for call in index.calls:
        function = flow.called(call)
        here = index.statement(call)
        if function is None or not any(here.scope is w.scope and w.statement.order < here.order for w in wrappers):
            continue
        code = index.source.code(function.node)
        if not re.search(r"\.state_dict\(\)", code) or not re.search(r"\.copy_\(", code):
            continue
        given = [arg.value for arg in call.args if not origins.isdisjoint(flow.deep_origins(arg.value, here.scope))]
        if not given or any(loop.statement in here.path for loop in loops):
            continue
        if any(loop.scope is here.scope and loop.statement.order < here.order for loop in loops):
            continue
        if not any(is_resume(index, part, code + "load_state_dict") for part in here.path if part.scope is here.scope):
            name = index.source.code(call.func)
            return f"{name} copies weights into it by their names after it is wrapped ({index.place(call)})"
    return ""


def _one_after_the_other(first: Statement, second: Statement) -> bool:
    """Whether two statements of a function may both run, because they are not in different branches of one choice."""
    parting = next(((a, b) for a, b in zip(first.path, second.path, strict=False) if a is not b), None)
    return parting is not None and parting[0].siblings is parting[1].siblings and first.scope is second.scope


def _builders(origins: set[Origin], wrappers: list[Wrapper], flow: Flow) -> set[Origin]:
    """Return the expressions that build the model.

    Where a function wraps it or builds the optimizer as well, those inside it; and none that only get the model passed
    after its optimizer was built.
    """
    index = flow.index
    optimizers = optimizer_statements(index)
    found: set[Origin] = set()
    for origin in origins:
        if isinstance(origin.node, (cst.Name, cst.Attribute)):
            continue
        function = flow.called(origin.node) if isinstance(origin.node, cst.Call) else None
        inside = flow.inside(origin) if function is not None else []
        further = [*optimizers, *(wrapper.statement for wrapper in wrappers)]
        if inside and any(statement.scope is function for statement in further):
            found.update(o for o in inside if o != origin)
        else:
            found.add(origin)
    built = {o for o in found if not _takes_model(o, flow, origins)}
    if not built or built == found:
        return found
    scopes = {index.scope_of(o.node) for o in built}
    used = [statement.order for statement in optimizers if statement.scope in scopes]
    return {o for o in found if o in built or not used or index.statement(o.node).order < min(used)}


def optimizer_statements(index: Index) -> list[Statement]:
    """Return the statements that build an optimizer, after which the model's layers have their names for good."""
    calls = [
        call
        for call in index.calls
        if (name := index.qualified(call.func)).startswith("torch.optim.")
        or name.rpartition(".")[2] in torch_api.OPTIMIZERS
    ]
    calls += [
        b.value
        for b in index.bindings
        if isinstance(b.value, cst.Call)
        and b.item is None
        and "optim" in b.target.lower()
        and "optim" in (dotted(b.value.func) or "").rpartition(".")[2].lower()
    ]
    return [index.statement(call) for call in calls]


def _takes_model(origin: Origin, flow: Flow, origins: set[Origin]) -> bool:
    """Whether a building call is given the model itself."""
    if not isinstance(origin.node, cst.Call):
        return False
    scope = flow.index.scope_of(origin.node)
    return any(not origins.isdisjoint(flow.origins(arg.value, scope)) for arg in origin.node.args if not arg.star)


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
        side="before",
    )


def defines(statement: Statement) -> bool:
    """Whether a statement only defines a function or a class, and runs nothing of it."""
    return isinstance(statement.node, (cst.FunctionDef, cst.ClassDef))


def _finished(
    flow: Flow, built: Statement, target: str, wrappers: list[Wrapper], training: set[Statement]
) -> Statement:
    """Return the last statement of the building: a head that is replaced, pretrained weights, layers that are frozen.

    Those know the layers by the names that they have before dendrites. A checkpoint to resume from is none of them: it
    was written by a training with dendrites.

    Args:
        training: the statements that lead to the epoch loop.
    """
    index = flow.index
    used = {wrapper.statement for wrapper in wrappers}
    used.update(optimizer_statements(index))
    used.update(index.statement(c) for c in index.calls if wrapper_kind(flow, c))
    used.update(b.statement for b in index.bindings if dotted(b.value) == target)
    loading = _loading_calls(flow, target, built, training)
    finished = built
    methods = "|".join(torch_api.MODULE_METHODS)  # those change nothing that dendrites depend on
    told = re.compile(rf"^\s*{re.escape(target)}\.(?!({methods})\()\w+\(", re.MULTILINE)
    for statement in built.following:
        if statement in training or any(statement in user.path for user in used):
            break
        loads = [loaded for place, loaded in loading if statement in place.path]
        changed = _changes(index, statement, target) or told.search(index.source.code(statement.node)) or loads
        if changed and not is_resume(index, statement, "\n".join(loads)):
            finished = statement
    return finished


def _changes(index: Index, statement: Statement, name: str) -> bool:
    """Whether a statement changes layers or weights of the model that has this name there, or of a part of it."""
    model, part = rf"\b{re.escape(name)}\b", r"(\.[\w.]+(\[[^\]]*\])?)?"
    changes = re.compile(
        rf"{model}\.[\w.]+(\[[^\]]*\])?\s*=[^=]|{model}{part}\.(load_state_dict|apply|requires_grad_|set_\w+)\("
        rf"|\bsetattr\({model}|{model}(.|\n)*\.requires_grad\s*=|{model}\.[\w.]*(weight|bias)\.data\b"
    )
    layers = re.compile(rf"{model}{part}\.(named_)?(modules|children|parameters)\(")
    inplace = re.compile(r"\.\w+_\(|\binit\.|\.data\[|\.(data|weight|bias)\s*=[^=]")
    code = index.source.code
    return changes.search(code(statement.node)) is not None or any(
        isinstance(loop.node, cst.For)
        and statement in loop.path
        and layers.search(code(loop.node.iter))
        and inplace.search(code(loop.node.body))
        for loop in index.loops
    )


def _loading_calls(flow: Flow, target: str, built: Statement, training: set[Statement]) -> list[tuple[Statement, str]]:
    """Return the calls beside the building that load weights into the model or change it, with the code that they run.

    Args:
        training: the statements that lead to the epoch loop.
    """
    index = flow.index
    found = []
    for call in index.calls:
        if index.scope_of(call) is not built.scope or not any(dotted(arg.value) == target for arg in call.args):
            continue
        place, function = index.statement(call), flow.called(call)
        code = "" if function is None else index.source.code(function.node)
        if re.match(r"_*(load|init)_", (dotted(call.func) or "").rpartition(".")[2]):
            found.append((place, code + "load_state_dict"))
        elif function is not None and place not in training and function.name != "__init__":
            given = [
                name
                for name in function.parameters
                if any(
                    source.value in [arg.value for arg in call.args] and dotted(source.value) == target
                    for source in flow.sources((function, name))
                )
            ]
            if any(_changes(index, index.statement(function.node), name) for name in given):
                found.append((place, code))
    return found


def is_resume(index: Index, statement: Statement, called: str = "") -> bool:
    """Whether a statement loads a checkpoint of an earlier training, not weights to begin with.

    Args:
        called: the code of a function that it calls, which does the loading.
    """
    code = index.source.code(statement.node) + called
    if "load_state_dict" not in code:
        return False
    test = index.source.code(statement.node.test) if isinstance(statement.node, cst.If) else ""
    if re.search(r"pretrain|finetune|fine_tune|init", test, re.IGNORECASE):
        return False
    progress = r"\w*(optim|sched|scaler)\w*\.load_state_dict|start_epoch\s*=|\bbest\w*\s*=|\bepoch\w*\s*="
    return re.search(r"resume", test, re.IGNORECASE) is not None or re.search(progress, code, re.IGNORECASE) is not None


def _over(training: set[Statement]) -> set[Statement]:
    """Return the statements after all that lead to an epoch loop."""
    return {later for part in training for later in part.following if training.isdisjoint([later, *later.following])}


def leading_to(loops: list[EpochLoop], flow: Flow) -> set[Statement]:
    """Return the statements around the epoch loops, in their functions and in those that call these."""
    found: set[Statement] = set()
    waiting = [loop.statement for loop in loops]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.update(here.path)
            waiting += [flow.index.statement(call) for call in flow.callers(here.scope)]
    return found


def _assigned(statement: Statement, origins: set[Origin], flow: Flow) -> str:
    """Return the name to which one of ``origins`` is assigned in ``statement``."""
    for binding in flow.index.bindings:
        if binding.value is None or statement not in binding.statement.path:
            continue
        made = flow.origins(binding.value, binding.statement.scope)
        if not origins.isdisjoint({*made, *(Origin(o.node, binding.item) for o in made)}):
            return binding.target
    return ""


def _plain_value(statement: Statement) -> cst.BaseExpression | None:
    node = statement.node
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
        small = node.body[0]
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and dotted(small.targets[0].target):
            return small.value
    return None
