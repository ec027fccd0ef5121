"""Find what loads, copies or sets the weights of the built model, by the names or in the structure of before."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Index, Scope, Statement, dotted, exclude_each_other, names_in
from retrofit.survey.loops import called_in
from retrofit.survey.order import (
    after_model,
    before_training,
    leading_to,
)
from retrofit.survey.sites import EpochLoop, MatchedName, Model, Wrapper


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
        if not of_model(function.value, origins, flow):
            continue
        later = _while_it_is(call, flow)
        text = "\n".join(index.source.code(s.node) for s in [here, *later] if s not in training)
        state = _state(call, flow)
        filtered = re.search(rf"\bif\b.*\bin\s+{state}|{state}\.update\(", text) and ".load_state_dict(" in text
        bodies = [
            index.source.code(loop.node.body)
            for loop in index.loops
            if isinstance(loop.node, cst.For) and loop.scope is here.scope and loop.order >= here.order
            if re.search(state, index.source.code(loop.node.iter))
        ]
        stored = [name for body in bodies for name in re.findall(r"(\w+)\[[^\]\n]*\]\s*=[^=]", body)]
        walked = _copies(call, flow) or any(re.search(rf"\.load_state_dict\({name}\b", text) for name in stored)
        if (filtered or walked) and before_training(here, loops, flow):
            whose = index.source.code(function.value)
            found.append(MatchedName(node=call, index=index, whose=whose, anchors={"state": call}))
    return found + _matched_parameters(origins, models, flow) + _counted_modules(origins, models, flow)


def _counted_modules(origins: set[Origin], models: list[Model], flow: Flow) -> list[MatchedName]:
    """Return the perforated model's `modules()` of which a loop counts those of a class, dendrites' copies too."""
    index, found = flow.index, []
    for call in index.calls:
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "modules" or call.args:
            continue
        here = index.statement(call)
        if not isinstance(here.node, cst.For) or call not in (here.node.iter, *_numbered(here.node.iter)):
            continue
        body = index.source.code(here.node.body)
        counts = re.search(r"^\s*(\w+)\s*(\+= 1|= \1 \+ 1)$", body, re.MULTILINE) or call is not here.node.iter
        if not counts or not re.search(r"\b(isinstance|type)\(", body):
            continue
        if any(after_model(here, m, flow) for m in models) and of_model(call.func.value, origins, flow):
            whose = index.source.code(call.func.value)
            found.append(MatchedName(node=call, index=index, whose=whose, modules=True, anchors={"state": call}))
    return found


def _numbered(walk: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what `enumerate(...)` numbers."""
    named = isinstance(walk, cst.Call) and dotted(walk.func) == "enumerate"
    return [walk.args[0].value] if isinstance(walk, cst.Call) and named and walk.args else []


def _matched_parameters(origins: set[Origin], models: list[Model], flow: Flow) -> list[MatchedName]:
    """Return the calls of the perforated model's `named_parameters` whose names are compared with names as a whole."""
    index = flow.index
    return [
        MatchedName(
            node=call, index=index, whose=index.source.code(call.func.value), parameters=True, anchors={"state": call}
        )
        for call in dict.fromkeys(_compared(comparison, flow) for comparison in index.comparisons)
        if call is not None and isinstance(call.func, cst.Attribute)
        if any(after_model(index.statement(call), model, flow) for model in models)
        and of_model(call.func.value, origins, flow)
    ]


def _compared(comparison: cst.Comparison, flow: Flow) -> cst.Call | None:
    """Return the `named_parameters()` with a name of which a comparison compares names that are written out."""
    index, target = flow.index, comparison.comparisons[0]
    if not isinstance(target.operator, (cst.In, cst.NotIn, cst.Equal, cst.NotEqual)):
        return None
    sides = [(comparison.left, target.comparator)]
    sides += [(target.comparator, comparison.left)] if isinstance(target.operator, (cst.Equal, cst.NotEqual)) else []
    for one, other in sides:
        if not any("." in name.strip(".") for name in _written(other, index.scope_of(comparison), flow)):
            continue  # a parameter of the model itself keeps its name
        name = index.source.code(one)
        for around in index.ancestors(comparison):
            walked = _walked(around, name, index)
            made = [] if walked is None else flow.origins(walked, index.scope_of(comparison))
            walked = made[0].node if len(made) == 1 else None
            if isinstance(walked, cst.Call) and dotted(walked.func) in ("list", "tuple", "sorted") and walked.args:
                walked = walked.args[0].value
            if isinstance(walked, cst.Call) and index.source.code(walked.func).endswith(".named_parameters"):
                return walked
    return None


def _walked(around: cst.CSTNode, name: str, index: Index) -> cst.BaseExpression | None:
    """Return what a loop, a comprehension or a filter goes through, where the first part of each item has that name."""
    walks: list[cst.For | cst.CompFor] = [around] if isinstance(around, cst.For) else []
    if isinstance(around, (cst.BaseSimpleComp, cst.DictComp)):
        walks = [around.for_in]
    for walk in walks:
        if isinstance(walk.target, cst.Tuple) and index.source.code(walk.target.elements[0].value) == name:
            return walk.iter
    if isinstance(around, cst.Call) and dotted(around.func) == "filter" and len(around.args) == 2:
        function = around.args[0].value
        if isinstance(function, cst.Lambda) and name in [f"{p.name.value}[0]" for p in function.params.params]:
            return around.args[1].value
    return None


def _written(
    node: cst.BaseExpression, scope: Scope, flow: Flow, seen: frozenset[tuple[Scope, str]] = frozenset()
) -> list[str]:
    """Return the strings that an expression is, or is a collection of, as far as they are written out.

    Args:
        seen: the variables that are being looked at: `names = set(names)`.
    """
    if isinstance(node, cst.SimpleString):
        return [str(node.evaluated_value)]
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        return [name for element in node.elements for name in _written(element.value, scope, flow, seen)]
    if isinstance(node, cst.Call) and dotted(node.func) in ("set", "frozenset", "list", "tuple") and node.args:
        return _written(node.args[0].value, scope, flow, seen)
    known = dotted(node)
    variable = flow.variable(known, scope) if known is not None else None
    if variable is None or variable in seen:
        return []
    values = [source.value for source in flow.sources(variable)]
    found = [value for value in values if value is not None and dotted(value) is None]
    return [name for value in found for name in _written(value, scope, flow, seen | {variable})]


def _copies(call: cst.Call, flow: Flow) -> bool:
    """Whether values are copied into a model's state that a call gets, by its names or in a loop over it."""
    index, here, state = flow.index, flow.index.statement(call), _state(call, flow)
    places = [here, *_while_it_is(call, flow)]
    loops = [s.node for s in index.loops if isinstance(s.node, cst.For) and any(part in s.path for part in places)]
    items = [name for node in loops for part in _walking(node, state, index) for name in names_in(part)]
    copies = "|".join([rf"{state}\[[^\]\n]*\]", *(rf"\b{item}" for item in items)])
    return any(re.search(rf"({copies})(\.data)?\.copy_\(", index.source.code(part.node)) for part in places)


def _walking(node: cst.For, state: str, index: Index) -> list[cst.BaseExpression]:
    """Return the targets of a loop that are items of a state, beside which it may go through others: `zip(...)`."""
    pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(node.target, node.iter)]
    if isinstance(node.iter, cst.Call) and dotted(node.iter.func) == "zip" and isinstance(node.target, cst.Tuple):
        pairs = [(e.value, arg.value) for e, arg in zip(node.target.elements, node.iter.args, strict=False)]
    return [target for target, walked in pairs if re.search(state, index.source.code(walked))]


def _state(call: cst.Call, flow: Flow) -> str:
    """Return the pattern of the name that a model's state gets, or of the call by which it is got."""
    names = [b.target for b in flow.index.bindings if b.value is call and b.item is None]
    return rf"(?<![.\w]){re.escape(names[0] if names else flow.index.source.code(call))}(?!\w)"


def _while_it_is(call: cst.Call, flow: Flow) -> list[Statement]:
    """Return the statements after a call in its function, and around it, up to where its name gets another value."""
    index, here = flow.index, flow.index.statement(call)
    names = [b.target for b in index.bindings if b.value is call and b.item is None]
    again = [
        b.statement.order
        for b in index.bindings
        if b.target in names
        and b.statement.scope is here.scope
        and b.statement.order > here.order
        and not exclude_each_other(b.statement, here)
    ]
    own = [part for part in here.path if part.scope is here.scope]
    return [s for part in own for s in part.following if s.order <= min(again, default=s.order)]


def of_model(node: cst.BaseExpression, origins: set[Origin], flow: Flow) -> bool:
    """Whether an expression is the model, or a part of it: `model.module.encoder`.

    Args:
        origins: where the model is built.
    """
    scope = flow.index.scope_of(node)
    return any(not origins.isdisjoint(flow.deep_origins(part, scope)) for part in (node, *_roots(node)))


def late_weights(
    origins: set[Origin],
    wrappers: list[Wrapper],
    loops: list[EpochLoop],
    matched: list[MatchedName],
    flow: Flow,
) -> str:
    """Return what copies weights by their names into the model between its wrapper and the epoch loop, "" for nothing.

    The layers have other names by then, so such a function would find none. `load_state_dict` is none of them: the
    recipe's helper teaches it the names from before.

    Args:
        origins: where the model is built.
        matched: the states that get the names from before anyhow.
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
        if any(match.scope is function for match in matched):
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


def find_averages(origins: set[Origin], loops: list[EpochLoop], flow: Flow) -> list[tuple[str, bool]]:
    """Return where copies of the model are made that follow its weights in training, and whether by an option.

    A copy that only keeps weights, or starts a training from them, is none.

    Args:
        origins: where the model is built.
        loops: the epoch loops.
    """
    index, found = flow.index, []
    around = [index.source.code(loop.node) for loop in loops]
    within = {scope for loop in loops for scope in called_in(index, flow, loop.statement)}
    trained = around + [index.source.code(scope.node) for scope in within]
    for binding in index.bindings:
        call, place = binding.value, binding.statement
        if not isinstance(call, cst.Call) or binding.item is not None or not call.args:
            continue
        kind, name = (dotted(call.func) or "").rpartition(".")[2], re.escape(binding.target.rpartition(".")[2])
        if re.search(r"EMA|Ema(?![a-z])|(^|_)ema(_|$)|MovingAverage", kind):
            follows = rf"\b{name}\.(update|step)\w*\("
        elif kind == "deepcopy":
            follows = rf"\w*(update|average|moving)\w*\([^()]*\b{name}\b"
            follows += (
                rf"|\bzip\([^\n]*\b{name}\.(parameters|state_dict)\(\)[^\n]*:\s+\w+(\.data)?(\.(copy|mul|lerp)_| = )"
            )
        else:
            continue
        inside = any(loop.statement in place.path for loop in loops) or place.scope in within
        given = walked_module(call.args[0].value, re.compile("parameters|state_dict")) or call.args[0].value
        if inside or origins.isdisjoint(flow.closure(set(flow.origins(given, place.scope)))):
            continue
        if any(re.search(follows, code) for code in trained):
            tests = [index.source.code(part.node.test) for part in place.path if isinstance(part.node, cst.If)]
            found.append((index.place(call), any("__name__" not in test for test in tests)))
    return found
