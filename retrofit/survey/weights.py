"""Find what loads, copies or sets the weights of the built model, by the names or in the structure of before."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Index, Statement, dotted
from retrofit.survey.order import (
    after_model,
    afterwards,
    defines,
    leading_to,
    leads_to,
    ways_to,
)
from retrofit.survey.sites import EpochLoop, MatchedName, Model, StaleLoad, Wrapper


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


def find_stale_loads(origins: set[Origin], loops: list[EpochLoop], flow: Flow) -> list[StaleLoad]:
    """Return what loads weights of the training into the trained model after the epoch loop: kept in it, or of a file.

    Args:
        origins: where the model is built.
        loops: the epoch loops.
    """
    index = flow.index
    found: dict[Statement, StaleLoad] = {}
    behind = [(loop, *after) for loop in loops for after in afterwards(loop, flow)]
    over = {later for _, later, _ in behind}
    for loop, later, always in behind:
        for place in index.statements:
            call = _called_alone(place) if later in place.path and place.scope is later.scope else None
            weights = None if call is None else _loaded_weights(call, origins, flow)
            if call is None or weights is None:
                continue
            model, state = weights
            mine = set(flow.origins(model, place.scope))
            built = [index.statement(origin.node) for origin in mine]
            if origins.isdisjoint(flow.closure(mine)) or any(not over.isdisjoint(s.path) for s in built):
                continue  # another model, or one that is built for the test
            kept = _kept_in(loop, state, place, flow)
            if kept or _from_file(loop, state, place, flow):
                found[place] = StaleLoad(node=place.node, index=index, from_file=not kept, always=always)
    return list(found.values())


def _called_alone(statement: Statement) -> cst.Call | None:
    """Return the call that is all of a statement."""
    node = statement.node
    small = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
    call = small.value if isinstance(small, cst.Expr) else None
    return call if isinstance(call, cst.Call) else None


def _loaded_weights(
    call: cst.Call, origins: set[Origin], flow: Flow
) -> tuple[cst.BaseExpression, cst.BaseExpression | None] | None:
    """Return the model that a call loads weights into, and the weights, None where a function reads them itself."""
    index = flow.index
    name = index.source.code(call.func).rpartition(".")[2]
    if name == "load_state_dict":
        return (call.func.value, call.args[0].value) if isinstance(call.func, cst.Attribute) and call.args else None
    function, scope = flow.called(call), index.scope_of(call)
    loads = function is None or "load_state_dict" in index.source.code(function.node)
    if not loads or not re.match(r"_*(load|restore)_\w*(checkpoint|ckpt|model|weight|best|state|param)", name):
        return None
    models = [arg.value for arg in call.args if not origins.isdisjoint(flow.deep_origins(arg.value, scope))]
    return (models[0], None) if models else None


def _kept_in(loop: EpochLoop, state: cst.BaseExpression | None, place: Statement, flow: Flow) -> bool:
    """Whether weights were kept by the loop, in its own function."""
    kept = [b for b in flow.index.bindings if b.target == dotted(state) and b.value is not None]
    inside = [b for b in kept if loop.statement in b.statement.path and b.statement.scope is place.scope]
    return bool(inside) and all(".state_dict()" in flow.index.source.code(b.value) for b in inside if b.value)


def _from_file(loop: EpochLoop, state: cst.BaseExpression | None, place: Statement, flow: Flow) -> bool:
    """Whether weights are read from a file after the loop: `torch.load(path)`, or an item of what a name got so."""
    reads = re.compile(r"(\w+\.)*_*(load|restore)(_?\w*(checkpoint|ckpt|file|model|state|weight)\w*)?\(")
    if state is None or reads.match(flow.index.source.code(state)):
        return True
    while isinstance(state, (cst.Subscript, cst.Call)):
        state = state.value if isinstance(state, cst.Subscript) else state.func
        state = state.value if isinstance(state, cst.Attribute) else state
    bound = [b for b in flow.index.bindings if b.target == dotted(state) and b.statement.scope is place.scope]
    last = max((b for b in bound if b.statement.order < place.order), key=lambda b: b.statement.order, default=None)
    if last is None or last.value is None or not reads.match(flow.index.source.code(last.value)):
        return False
    here = loop.statement
    return here not in last.statement.path and (
        last.statement.scope is not here.scope or last.statement.order > here.order
    )


def find_matched_names(
    origins: set[Origin], models: list[Model], loops: list[EpochLoop], flow: Flow
) -> list[MatchedName]:
    """Return where weights are taken over by the perforated model's own names.

    No name of a plain checkpoint is among them, so it would keep the fresh weights and say nothing.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
        loops: the epoch loops.
    """
    found = []
    index, training = flow.index, leading_to(loops, flow)
    for call in index.calls:
        function = call.func
        if not isinstance(function, cst.Attribute) or function.attr.value != "state_dict" or call.args:
            continue
        here = index.statement(call)
        if not any(after_model(here, model, flow) for model in models):
            continue
        if origins.isdisjoint(flow.deep_origins(function.value, here.scope)):
            continue
        text = "\n".join(index.source.code(s.node) for s in [here, *here.following] if s not in training)
        names = [b.target for b in index.bindings if b.value is call and b.item is None]
        state = rf"(?<![.\w]){re.escape(names[0] if names else index.source.code(call))}(?!\w)"
        filtered = re.search(rf"\bif\b.*\bin\s+{state}|{state}\.update\(", text) and ".load_state_dict(" in text
        bodies = [
            index.source.code(loop.node.body)
            for loop in index.loops
            if isinstance(loop.node, cst.For) and loop.scope is here.scope and loop.order >= here.order
            if re.search(state, index.source.code(loop.node.iter))
        ]
        stored = [name for body in bodies for name in re.findall(r"(\w+)\[[^\]\n]*\]\s*=[^=]", body)]
        walked = any(".copy_(" in body for body in bodies) or any(
            re.search(rf"\.load_state_dict\({name}\b", text) for name in stored
        )
        ways = [way for calls in ways_to(here, flow).values() for way in calls]
        early = any(leads_to(way, training) for way in ways) and all(
            loop.statement not in way.path for loop in loops for way in ways
        )
        around = [part for way in ways for part in way.path if part.scope is way.scope and not defines(part)]
        around = [part for part in around if part not in training]
        helper = here.scope.parent is not None and index.statement(here.scope.node) not in training
        loads = index.source.code(here.scope.node) if helper else "load_state_dict"
        if (filtered or walked) and early and not any(is_resume(index, part, loads) for part in around):
            whose = index.source.code(function.value)
            found.append(MatchedName(node=call, index=index, whose=whose, anchors={"state": call}))
    return found


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
        if re.search("ema|update|average", function.name):  # out of the model, into its average
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


#: Names of functions and methods that give a model's layers their weights to begin with, and of methods alone.
_SETS_WEIGHTS = re.compile(
    r"_*(re)?(init|initiali[sz]e)_*|\w*(init|reset)\w*(weight|param|mod|layer|net|bias|emb)\w*"
    r"|\w*(weight|param|layer|net)s?_*(init|reset)\w*"
)
_LOADS_WEIGHTS = re.compile(
    r"_*(load|init|read|set)\w*_\w*(pretrain|weight|param|emb|glove|vectors|w2v|word2?vec|imagenet)\w*"
)
_SETS_VALUES = re.compile(
    r"\binit\.\w+_\(|\.reset_parameters\(|\.(weight|bias|data)\.(normal|uniform|fill|zero|mul|copy)_\("
    r"|\.(weight|bias)\.data\s*(\[[^\n=]*\]\s*)?="
)


def late_beginnings(origins: set[Origin], models: list[Model], loops: list[EpochLoop], flow: Flow) -> list[Statement]:
    """Return the statements that give the built model's layers their first weights only after it is perforated.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
        loops: the epoch loops.
    """
    index, training = flow.index, leading_to(loops, flow)

    def is_model(node: cst.BaseExpression) -> bool:
        return not origins.isdisjoint(flow.closure(set(flow.origins(node, index.scope_of(node)))))

    found = []
    for loop in index.loops:
        node = loop.node
        if not isinstance(node, cst.For) or not isinstance(node.iter, cst.Call):
            continue
        operand = walked_module(node.iter, re.compile("(named_)?(modules|parameters|children)"))
        if operand is not None and is_model(operand) and _SETS_VALUES.search(index.source.code(node.body)):
            found.append(loop)
    for call in index.calls:
        place = index.statement(call)
        if not isinstance(index.parents.get(call), cst.Expr) or place.crowded:
            continue
        function, name = flow.called(call), index.source.code(call.func).rpartition(".")[2]
        given = [arg.value for arg in call.args if not arg.star]
        if isinstance(call.func, cst.Attribute):
            if name == "apply" and given and is_model(call.func.value):
                name = index.source.code(given[0]).rpartition(".")[2]
                function = flow.defined(given[0], place.scope)
            given += [call.func.value, *_roots(call.func.value)]
        if function is not None:
            sets = _SETS_VALUES.search(index.source.code(function.node))
        elif isinstance(call.func, cst.Attribute) and _LOADS_WEIGHTS.fullmatch(name):
            sets = _LOADS_WEIGHTS.match(name)
            given = [call.func.value, *_roots(call.func.value)]
        elif sets := _SETS_VALUES.search(f"{index.source.code(call.func)}("):  # a single layer's
            given = [root for value in given for root in _roots(value)]
        else:
            sets = _SETS_WEIGHTS.fullmatch(name)
        if sets and any(is_model(value) for value in given):
            found.append(place)
    inside = {loop.statement for loop in loops}

    def before_training(place: Statement) -> bool:
        ways = [here for calls in ways_to(place, flow).values() for here in calls]
        return all(inside.isdisjoint(here.path) for here in ways) and any(leads_to(here, training) for here in ways)

    late = {
        place: [here for calls in ways_to(place, flow).values() for here in calls if here is not place]
        for place in found
        if place not in training and before_training(place) and any(after_model(place, model, flow) for model in models)
    }
    return [place for place, calls in late.items() if late.keys().isdisjoint(calls)]


def walked_module(value: cst.BaseExpression, parts: re.Pattern[str]) -> cst.BaseExpression | None:
    """Return the module in `module.parameters()`, `module.state_dict().values()` and the like."""
    node: cst.BaseExpression = value
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if not parts.fullmatch(node.func.attr.value):
            break
        node = node.func.value
    return None if node is value else node


def _roots(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what an attribute or an item is of, up to the name."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
        yield node
