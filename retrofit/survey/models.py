"""Find where the wrapped model is built, and which wrappers wrap the same model."""

from __future__ import annotations

import re
from itertools import combinations

import libcst as cst

from retrofit import torch_api
from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Index, Statement, dotted, meeting
from retrofit.survey.sites import EpochLoop, Model, Optimizer, Resume, StaleLoad, Wrapper
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


def find_stale_loads(origins: set[Origin], loops: list[EpochLoop], flow: Flow) -> list[StaleLoad]:
    """Return what loads, after the epoch loop, weights that the loop kept: `model.load_state_dict(best_weights)`.

    Args:
        origins: where the model is built.
        loops: the epoch loops.
    """
    index = flow.index
    found = []
    for loop, later in [(one, later) for one in loops for later in one.statement.following]:
        node = later.node
        small = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
        call = small.value if isinstance(small, cst.Expr) else None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or not call.args:
            continue
        kept = [b for b in index.bindings if b.target == dotted(call.args[0].value) and b.value is not None]
        inside = [b for b in kept if loop.statement in b.statement.path and b.statement.scope is later.scope]
        weights = bool(inside) and all(".state_dict()" in index.source.code(b.value) for b in inside if b.value)
        mine = flow.closure(set(flow.origins(call.func.value, later.scope)))
        if call.func.attr.value == "load_state_dict" and weights and not origins.isdisjoint(mine):
            found.append(StaleLoad(node=node, index=index))
    return found


def plural(origins: set[Origin], wrappers: list[Wrapper], flow: Flow) -> str:
    """Return why what is wrapped at one place is not one model, "" where it is.

    Args:
        origins: where the model is built.
        wrappers: its wrappers.
    """
    index = flow.index
    built = sorted({index.statement(origin.node) for origin in origins}, key=lambda statement: statement.order)
    holders = {s.scope.enclosing_class: s for s in built if s.scope.enclosing_class is not None}
    if len(holders) > 1:
        places = ", ".join(f"`{holder.name}` ({index.place(s.node)})" for holder, s in holders.items() if holder)
        return f"each of several classes builds its own, and the choice among them is made at run time: {places}"
    for wrapper in wrappers:
        calls = flow.callers(wrapper.scope) if wrapper.returned else []
        bound = {binding.target: call for call in calls for binding in index.bindings if binding.value is call}
        if len(bound) > 1:
            places = ", ".join(f"`{name}` ({index.place(call)})" for name, call in bound.items())
            return f"it wraps {places}"
    return ""


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
    training = {part for part in _around(loops or [], flow) if not _defines(part)}
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
    optimizers = _optimizer_statements(index)
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


def _optimizer_statements(index: Index) -> list[Statement]:
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


def _defines(statement: Statement) -> bool:
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
    used.update(_optimizer_statements(index))
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


def find_resumes(origins: set[Origin], models: list[Model], loops: list[EpochLoop], flow: Flow) -> list[Resume]:
    """Return what loads a checkpoint into the built model before the epoch loop: `if` blocks, and calls that resume.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
        loops: the epoch loops.
    """
    index = flow.index
    found: dict[Statement, Resume] = {}
    training = _around(loops, flow)
    making = _optimizer_statements(index) + [index.statement(c) for c in index.calls if wrapper_kind(flow, c)]
    making += [model.statement for model in models]
    for call in index.calls:
        for place, loads in _loads(call, origins, flow):
            if any(loop.statement in place.path for loop in loops):
                continue
            if not any(m.statement.order < place.order and m.statement not in place.path for m in models):
                continue
            ifs = [part for part in place.path if isinstance(part.node, cst.If) and part.scope is place.scope]
            ifs = [part for part in ifs if part not in training]
            block = next((part for part in ifs if is_resume(index, part, loads)), None)
            if block is None and _leads_to(place, training):
                whole = [part for part in ifs if not any(part in made.path for made in making)]
                block = next((part for part in whole if not _leaves(index, part)), None)
                resumes = loads and isinstance(place.node, cst.SimpleStatementLine) and is_resume(index, place, loads)
                if not ifs and resumes and place not in training and place not in making:
                    block = place
            if block is not None:
                found[block] = _resume(block, origins, flow)
                break
    return list(found.values())


def _loads(call: cst.Call, origins: set[Origin], flow: Flow) -> list[tuple[Statement, str]]:
    """Return where a call loads weights into the model, and where its function is called, with the code of a helper."""
    index = flow.index
    place, function = index.statement(call), flow.called(call)
    name = index.source.code(call.func).rpartition(".")[2]

    def is_model(value: cst.BaseExpression) -> bool:
        return not origins.isdisjoint(flow.closure(set(flow.origins(value, place.scope))))

    if name == "load_state_dict":
        if not isinstance(call.func, cst.Attribute) or not is_model(call.func.value):
            return []
        helper = "" if place.scope.parent is None else index.source.code(place.scope.node)
        return [(place, ""), *((index.statement(caller), helper) for caller in flow.callers(place.scope))]
    if not re.match(r"_*(auto_)?(load|resume|restore|restart)_", name):
        return []
    if not any(is_model(arg.value) for arg in call.args if not arg.star):
        return []
    if function is None:
        return [(place, "load_state_dict" + ("; start_epoch =" if re.search("resume|restart", name) else ""))]
    code = index.source.code(function.node)
    given = [arg.keyword.value if arg.keyword else index.source.code(arg.value) for arg in call.args]
    others = " ".join(f"{name}.load_state_dict" for name in given if re.search("optim|sched|scaler", name))
    return [(place, f"{code}\n{others}")] if "load_state_dict" in code else []


def _leads_to(place: Statement, training: set[Statement]) -> bool:
    """Whether a statement runs before what leads to the epoch loop in its own function."""
    return any(
        later in training and not _defines(later)
        for part in place.path
        if part.scope is place.scope
        for later in part.following
    )


def _leaves(index: Index, statement: Statement) -> bool:
    """Whether a block ends its function or the program: it loads a model to test it."""
    code = index.source.code(statement.node)
    return re.search(r"^\s*return\b|\bexit\(", code, re.MULTILINE) is not None


def _over(training: set[Statement]) -> set[Statement]:
    """Return the statements after all that lead to an epoch loop."""
    return {later for part in training for later in part.following if training.isdisjoint([later, *later.following])}


def _around(loops: list[EpochLoop], flow: Flow) -> set[Statement]:
    """Return the statements around the epoch loops, in their functions and in those that call these."""
    found: set[Statement] = set()
    waiting = [loop.statement for loop in loops]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.update(here.path)
            waiting += [flow.index.statement(call) for call in flow.callers(here.scope)]
    return found


#: Lines that restarted rounds may run as well: messages, and plain values to begin with.
_HARMLESS = re.compile(
    r"""(print|raise|\w+\.(info|warning|error))\b.*|[\w.\[\]"', ]+ = ([^()]|float\(["'][+-]?inf["']\))*|pass|#.*|"""
)


def _resume(block: Statement, origins: set[Origin], flow: Flow) -> Resume:
    index, node = flow.index, block.node
    site = Resume(node=node, index=index, test="", otherwise=True)
    if isinstance(node, cst.If):
        site.test = index.source.code(node.test)
        if isinstance(node.test, (cst.BooleanOperation, cst.IfExp, cst.NamedExpr, cst.Lambda)):
            site.test = f"({site.test})" if not node.test.lpar else site.test
        site.anchors["test"] = node.test
        names = flow.names_of(origins, block.scope)
        site.otherwise = node.orelse is not None and not _only_begins(index.source.code(node.orelse), names)
    site.unbound = _unbound(block, flow, site.otherwise)
    return site


def _only_begins(code: str, names: list[str]) -> bool:
    """Whether an `else` only sets values to begin with, and leaves the model as it is.

    Args:
        names: the names of the model.
    """
    head, *rest = code.strip().splitlines()
    touched = "|".join([r"\w*(?:load|init|pretrain|finetune|resume)\w*", *map(re.escape, names)])
    harmless = all(_HARMLESS.fullmatch(line.strip()) for line in rest)
    return head.strip() == "else:" and (harmless or re.search(rf"\b({touched})\b", "\n".join(rest)) is None)


def _unbound(block: Statement, flow: Flow, whole: bool) -> list[str]:
    """Return the names that have no value where a block is passed over, and are used after it.

    Args:
        whole: whether its `else` is passed over as well.
    """
    index, found = flow.index, []
    here = [b for b in index.bindings if b.statement.scope is block.scope and "." not in b.target]
    inside = [b for b in here if block in b.statement.path]
    last = max((s.order for s in index.statements if block in s.path), default=block.order)
    rest = block.node.orelse if isinstance(block.node, cst.If) and not whole else None
    kept = [b.target for b in inside if rest is not None and rest in index.ancestors(b.statement.node)]
    for name in dict.fromkeys(b.target for b in inside):
        known = name in kept or name in block.scope.parameters or flow.variable(name, block.scope)[0] is not block.scope
        known = known or any(b.target == name and b.statement.order < block.order for b in here)
        if not known and _used_after(name, last, block, flow):
            found.append(name)
    return found


def _used_after(name: str, order: int, block: Statement, flow: Flow) -> bool:
    """Whether a name is used after a block before it is bound anew on every way.

    Args:
        order: that of the last statement in the block.
    """
    index = flow.index
    places = [
        index.statement(n) for n in index.parents if isinstance(n, cst.Name) and n.value == name and _reads(n, index)
    ]
    places += [b.statement for b in index.bindings if b.target == name]
    settled: list[Statement] = []
    for place in sorted(dict.fromkeys(places), key=lambda statement: statement.order):
        if place.order <= order or flow.variable(name, place.scope) != flow.variable(name, block.scope):
            continue
        if any(part in place.path for part in settled):
            continue
        bound = [b for b in index.bindings if b.target == name and b.statement is place]
        value = bound[0].value if bound else None
        if not bound or (value is not None and re.search(rf"\b{name}\b", index.source.code(value))):
            return True
        around = [p for p in place.path if isinstance(p.node, cst.If) and p not in block.path]
        if not around:
            return False
        settled.append(around[0])
    return False


def _reads(name: cst.Name, index: Index) -> bool:
    """Whether a name in the tree is the variable of that name, not an attribute's or an argument's."""
    parent = index.parents[name]
    if isinstance(parent, cst.Attribute):
        return parent.value is name
    return not isinstance(parent, (cst.Param, cst.AssignTarget)) and not (
        isinstance(parent, cst.Arg) and parent.keyword is name
    )


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
