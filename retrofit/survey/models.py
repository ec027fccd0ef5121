"""Find where the wrapped model is built, and which wrappers wrap the same model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from itertools import combinations, product

import libcst as cst

from retrofit import torch_api
from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Index, Scope, Statement, dotted, exclude_each_other, meeting
from retrofit.survey.sites import EpochLoop, MatchedName, Model, Optimizer, StaleLoad, Wrapper
from retrofit.survey.wrappers import split_moves, wrapper_kind


def group_by_model(wrappers: list[Wrapper], flow: Flow) -> list[tuple[set[Origin], list[Wrapper]]]:
    """Group whole-model wrappers by the model that they wrap."""
    groups: list[tuple[set[Origin], list[Wrapper]]] = []
    for wrapper in wrappers:
        operand = wrapper.anchors["operand"]
        assert isinstance(operand, cst.BaseExpression)
        origins = set(flow.origins(operand, wrapper.scope))
        makers = {flow.called(o.node) for o in origins if isinstance(o.node, cst.Call)}
        for known, members in groups:
            if not known.isdisjoint(origins) or any(member.scope in makers for member in members):
                known |= origins
                members.append(wrapper)
                break
        else:
            groups.append((origins, [wrapper]))
    return groups


def find_stale_loads(origins: set[Origin], loops: list[EpochLoop], flow: Flow) -> list[StaleLoad]:
    """Return what loads weights of the training into the trained model after the epoch loop: kept in it, or of a file.

    Args:
        origins: where the model is built.
        loops: the epoch loops.
    """
    index = flow.index
    found: dict[Statement, StaleLoad] = {}
    afterwards = [(loop, *after) for loop in loops for after in _afterwards(loop, flow)]
    over = {later for _, later, _ in afterwards}
    for loop, later, always in afterwards:
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


def _afterwards(loop: EpochLoop, flow: Flow) -> Iterator[tuple[Statement, bool]]:
    """Yield what comes after an epoch loop, and after the calls that lead to it, and whether it does only then."""
    waiting, seen = [(loop.statement, True)], set()
    while waiting:
        here, always = waiting.pop()
        for part in reversed([part for part in here.path if part.scope is here.scope]):
            yield from ((later, always) for later in part.following if not defines(later))
            always = always and not isinstance(part.parent.node if part.parent else None, cst.If)
        if here.scope not in seen:
            seen.add(here.scope)
            waiting += [(flow.index.statement(call), always) for call in flow.callers(here.scope)]


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


def is_apart(wrapper: Wrapper, models: list[Model], loops: list[EpochLoop], flow: Flow) -> bool:
    """Whether a wrapper gets no perforated model and leads to no training (it tests, and leaves), or comes after it.

    Args:
        models: the places after which the model is there.
        loops: the epoch loops.
    """
    here = wrapper.statement
    own = [part for part in here.path if part.scope is here.scope]
    left = any(always_leaves(part.siblings[-1], flow.index) for part in own)
    training = leading_to(loops, flow)
    if not _over({part for part in training if not defines(part)}).isdisjoint(here.path):
        return True
    if not models or not loops or (leads_to(here, training) and not left):
        return False
    return all(
        model.scope is here.scope
        and model.statement is not here
        and ((left and here.order < model.statement.order) or exclude_each_other(here, model.statement))
        for model in models
    )


def always_leaves(statement: Statement, index: Index) -> bool:
    """Whether a statement, whatever the conditions, ends its function or the program."""
    ending = r"(return|raise)\b|((sys|os)\.)?_?(exit|quit)\("
    return isinstance(statement.node, cst.SimpleStatementLine) and any(
        re.match(ending, index.source.code(small)) for small in statement.node.body
    )


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
        trains = statement in training and isinstance(statement.node, cst.SimpleStatementLine)
        target = "" if trains else _assigned(statement, flow.closure(origins), flow)
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


def disorder(
    models: list[Model], optimizers: list[Optimizer], wrappers: list[Wrapper], origins: set[Origin], flow: Flow
) -> str:
    """Return why perforating the model where it is built would not do, "" where it would.

    Args:
        models: the places after which the model is there.
        optimizers: those that train it.
        wrappers: the wrappers of this model.
        origins: where it is built.
    """
    index = flow.index
    if any(_one_after_the_other(a.statement, b.statement) for a, b in combinations(models, 2)):
        return f"the model is built in several steps, at lines {', '.join(str(model.line) for model in models)}"
    for optimizer in optimizers:
        part = _part(optimizer, origins, flow)
        if part:
            return (
                f"the optimizer at {optimizer.place()} takes the parameters of `{part}`, out of which the model is "
                "made, so it would miss its dendrites; take them from the model"
            )
        if optimizer.keeps and optimizer.factory_made:
            if any(optimizer.node is origin.node for origin in origins):
                return f"the optimizer at {optimizer.place()} comes out of the call that builds the model"
            return (
                f"the parameters of the optimizer at line {optimizer.line} come out of the call that builds the model"
            )
    for model in models:
        root = model.target.partition(".")[0]
        if root and root != "self" and root not in flow.variable(root, model.scope)[0].names:
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
    for model in models:
        for optimizer in optimizers:
            sooner = _sooner(optimizer.statement, model, origins, flow)
            if sooner is not None:
                return (
                    f"the optimizer at {optimizer.place()} is built at {index.place(sooner.node)}, before the model is "
                    f"finished at {model.place()}"
                )
        for wrapper in wrappers if model.side == "after" else ():
            sooner = _sooner(wrapper.statement, model, origins, flow)
            if sooner is not None:
                return (
                    f"{index.place(sooner.node)} already wraps it (by {wrapper.place()}), so build it before, by a "
                    "statement of its own"
                )
    return ""


def _sooner(statement: Statement, model: Model, origins: set[Origin], flow: Flow) -> Statement | None:
    """Return what leads to a statement of another function before the model is perforated."""
    if statement.scope is model.scope or model.in_wrapper:
        return None
    making = _ways(model.statement, flow)
    for scope, calls in _ways(statement, flow, origins).items():
        for call in calls:
            for made in making.get(scope, ()):
                early = call.order < made.order or (call is made is model.statement)
                if early and not exclude_each_other(call, made):
                    return call
    return None


def _ways(statement: Statement, flow: Flow, origins: Set[Origin] = frozenset()) -> dict[Scope, list[Statement]]:
    """Return the statements by which one runs: itself, and the calls that lead to it, by their functions.

    Args:
        origins: where the model is built; of a function's calls those count that are given it, if any is.
    """
    index = flow.index
    found: dict[Scope, list[Statement]] = {}
    waiting = [statement]
    while waiting:
        here = waiting.pop()
        known = found.setdefault(here.scope, [])
        if here in known:
            continue
        known.append(here)
        calls = flow.callers(here.scope)
        given = [
            call
            for call in calls
            if any(not origins.isdisjoint(flow.deep_origins(a.value, index.scope_of(call))) for a in call.args)
        ]
        waiting += [index.statement(call) for call in given or calls]
    return found


def repeated(models: list[Model], flow: Flow) -> list[Statement]:
    """Return the calls, where there are several in a row, of the function in which the model would be perforated."""
    index = flow.index

    def both_run(first: cst.Call, second: cst.Call) -> bool:
        here, there = index.statement(first), index.statement(second)
        chosen = any(isinstance(around, cst.IfExp) for around in index.ancestors(first))
        return not chosen if here is there else _one_after_the_other(here, there)

    for model in models:
        scope = model.scope
        seen = {scope}
        while calls := list(dict.fromkeys(flow.callers(scope))):
            found = next((pair for pair in combinations(calls, 2) if both_run(*pair)), None)
            if found is not None:
                return [index.statement(call) for call in found]
            scope = index.scope_of(calls[0])
            if len(calls) > 1 or scope in seen:
                break
            seen.add(scope)
    return []


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
        if not any(_after(here, model, flow) for model in models):
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
        ways = [way for calls in _ways(here, flow).values() for way in calls]
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


def beside_another(origins: set[Origin], models: list[Model], flow: Flow) -> str:
    """Return what goes through the perforated model's layers beside those of a model without dendrites, or "".

    They pair up wrongly, as dendrites and what holds them are further layers. A copy of the perforated model has them.
    """
    index = flow.index
    parts = re.compile(r"(?:named_)?(?:parameters|modules|children|buffers)|state_dict|values|items|keys")
    for call in index.calls:
        here = index.statement(call)
        loads = isinstance(call.func, cst.Attribute) and call.func.attr.value == "load_state_dict"
        if not loads and index.qualified(call.func) != "zip":
            continue
        if not any(_after(here, model, flow) for model in models):
            continue
        operands = [node for arg in call.args if (node := _operand(arg.value, parts)) is not None]
        others = [call.func.value] if isinstance(call.func, cst.Attribute) and loads else operands
        made = {node: set(flow.origins(node, here.scope)) for node in (*operands, *others)}
        wholes = [node for node in operands if not origins.isdisjoint(made[node])]
        wholes = wholes or [node for node in operands if not origins.isdisjoint(flow.closure(made[node]))]
        for whole, other in product(wholes, others):
            built = [o.node for o in made[other] if isinstance(o.node, cst.Call)]
            copied = any(
                not origins.isdisjoint(flow.deep_origins(given.value, index.scope_of(one)))
                for one in built
                for given in one.args
            )
            if built and not copied and made[whole].isdisjoint(made[other]):
                return (
                    f"{index.place(call)} takes its layers for those of `{index.source.code(other)}`, which gets no "
                    "dendrites, so they would no longer match"
                )
    return ""


def _operand(value: cst.BaseExpression, parts: re.Pattern[str]) -> cst.BaseExpression | None:
    """Return the module in `module.parameters()`, `module.state_dict().values()` and the like."""
    node: cst.BaseExpression = value
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if not parts.fullmatch(node.func.attr.value):
            break
        node = node.func.value
    return None if node is value else node


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
        operand = _operand(node.iter, re.compile("(named_)?(modules|parameters|children)"))
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
        if sets and name != "__init__" and any(is_model(value) for value in given):
            found.append(place)
    inside = {loop.statement for loop in loops}

    def before_training(place: Statement) -> bool:
        ways = [here for calls in _ways(place, flow).values() for here in calls]
        return all(inside.isdisjoint(here.path) for here in ways) and any(leads_to(here, training) for here in ways)

    late = {
        place: [here for calls in _ways(place, flow).values() for here in calls if here is not place]
        for place in found
        if place not in training and before_training(place) and any(_after(place, model, flow) for model in models)
    }
    return [place for place, calls in late.items() if late.keys().isdisjoint(calls)]


def _roots(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what an attribute or an item is of, up to the name."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
        yield node


def late_layers(origins: set[Origin], models: list[Model], loops: list[EpochLoop], flow: Flow) -> str:
    """Return what gives the model another layer after it is perforated, "" for nothing."""
    index, training = flow.index, leading_to(loops, flow)
    for binding in index.bindings:
        holder, place = binding.target.rpartition(".")[0].removesuffix(".module"), binding.statement
        kind = index.qualified(binding.value.func) if isinstance(binding.value, cst.Call) else ""
        layer = (
            re.fullmatch(r"torch\.nn\.([A-Z]\w+|modules\..*)", kind)
            and kind not in torch_api.DATA_PARALLEL_NAMES | torch_api.DDP_NAMES
        )
        ways = [way for calls in _ways(place, flow).values() for way in calls] if holder and layer else []
        if not any(leads_to(way, training) for way in ways):
            continue
        names = flow.names_of(origins, place.scope)
        late = any(_after(place, model, flow) for model in models)
        if late and any(holder == name or holder.startswith(f"{name}.") for name in names):
            return f"`{binding.target}` gets another layer after it, at {index.place(place.node)}"
    return ""


def _after(place: Statement, model: Model, flow: Flow) -> bool:
    """Whether a statement runs after the model is perforated, as far as is seen."""
    if place.scope is model.scope:
        return place.order > model.statement.order and model.statement not in place.path
    here, made = _ways(place, flow), _ways(model.statement, flow)
    inner = next((scope for scope in (model.scope, place.scope) if scope in here and scope in made), None)
    return any(
        one.order > other.order and other not in one.path and not exclude_each_other(one, other)
        for scope in (here.keys() & made.keys() if inner is None else {inner})
        for one in here[scope]
        for other in made[scope]
    )


def _one_after_the_other(first: Statement, second: Statement) -> bool:
    """Whether two statements of a function may both run, because they are not in different branches of one choice."""
    return first.scope is second.scope and first is not second and not exclude_each_other(first, second)


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
    using = {wrapper.statement for wrapper in wrappers}
    using.update(optimizer_statements(index))
    using.update(index.statement(c) for c in index.calls if wrapper_kind(flow, c))
    used = {here for statement in using for here in _ways(statement, flow).get(built.scope, ())}
    used.update(b.statement for b in index.bindings if dotted(b.value) == target or _copies(index, b.value, target))
    loading = _loading_calls(flow, target, built, training)
    finished = block = built
    methods = "|".join(torch_api.MODULE_METHODS)  # those change nothing that dendrites depend on
    told = re.compile(rf"^\s*{re.escape(target)}{_PART}\.(?!({methods})\()\w+\(", re.MULTILINE)
    while block.scope is built.scope:
        for statement in block.following:
            if statement in training or any(statement in user.path for user in used):
                return finished
            loads = [loaded for place, loaded in loading if statement in place.path]
            changed = _changes(index, statement, target) or told.search(index.source.code(statement.node)) or loads
            if changed and not is_resume(index, statement, "\n".join(loads)):
                finished = statement
        around = block.parent
        if around is None or around in training or any(around in user.path for user in used) or leaves(index, around):
            break
        if isinstance(around.node, cst.With):  # of the building alone: another folder, one rank at a time
            finished = around
        elif not isinstance(around.node, (cst.If, cst.Try)):
            break
        block = around
    return finished


def _copies(index: Index, value: cst.BaseExpression | None, name: str) -> bool:
    """Whether a value is a copy of the model of that name, which needs its dendrites too."""
    return (
        isinstance(value, cst.Call)
        and any(dotted(arg.value) == name for arg in value.args)
        and re.search(r"deepcopy|ema|average|shadow", index.source.code(value.func), re.IGNORECASE) is not None
    )


#: A part of a model, after its name.
_PART = r"(\.\w+|\[[^\]]*\])*"


def _changes(index: Index, statement: Statement, name: str) -> bool:
    """Whether a statement changes layers or weights of the model that has this name there, or of a part of it."""
    model, part = rf"\b{re.escape(name)}\b", _PART
    changes = re.compile(
        rf"{model}\.[\w.]+(\[[^\]]*\])?\s*=[^=]|{model}{part}\.(load_state_dict|apply|requires_grad_|set_\w+)\("
        rf"|\bsetattr\({model}|\binit\.\w+_\(\s*{model}|{model}(.|\n)*\.requires_grad\s*=|{model}{part}\.(weight|bias)\.(data\b|\w+_\()"
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


#: Names of functions that change the layers of a model in place.
_CHANGES_LAYERS = re.compile(
    r"_*(prepare|convert|replace|quanti[sz]e|prune|inject|fuse|(un)?freeze|patch|insert|swap|modify|adapt|change)(_|$|[A-Z])"
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
        name = (dotted(call.func) or "").rpartition(".")[2]
        if re.match(r"_*(load|init)_", name):
            found.append((place, code + "load_state_dict"))
        elif place in training or (function is not None and function.name == "__init__"):
            continue
        elif function is None and isinstance(index.parents.get(call), cst.Expr) and _CHANGES_LAYERS.match(name):
            found.append((place, code))  # of a module that is not read
        elif _changes_what_it_gets(call, target, flow, set()):
            found.append((place, code))
    return found


def _changes_what_it_gets(call: cst.Call, target: str, flow: Flow, seen: set[Scope]) -> bool:
    """Whether a function, or one that it calls, changes layers or weights of the model that a call gives it.

    Args:
        target: the model's name where the call is.
        seen: the functions that are being looked at.
    """
    index, function = flow.index, flow.called(call)
    if function is None or function in seen:
        return False
    values = [arg.value for arg in call.args if dotted(arg.value) == target]
    for name in function.parameters:
        if any(source.value in values for source in flow.sources((function, name))):
            inner = [c for c in index.calls if index.scope_of(c) is function]
            if _changes(index, index.statement(function.node), name) or any(
                _changes_what_it_gets(c, name, flow, seen | {function}) for c in inner
            ):
                return True
    return False


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


def leads_to(place: Statement, training: set[Statement]) -> bool:
    """Whether a statement runs before what leads to the epoch loop in its own function."""
    return any(
        later in training and not defines(later)
        for part in place.path
        if part.scope is place.scope
        for later in part.following
    )


def leaves(index: Index, statement: Statement) -> bool:
    """Whether a block ends its function or the program: it loads a model to test it."""
    code = index.source.code(statement.node)
    return re.search(r"^\s*return\b|\bexit\(", code, re.MULTILINE) is not None


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
