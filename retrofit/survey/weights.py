"""Find what loads, copies or sets the weights of the built model, by the names or in the structure of before."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Index, Scope, Statement, dotted
from retrofit.survey.loops import called_in
from retrofit.survey.order import after_model
from retrofit.survey.sites import EpochLoop, MatchedName, Model


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


def find_matched_names(origins: set[Origin], models: list[Model], flow: Flow) -> list[MatchedName]:
    """Return where the perforated model's parameters are chosen by their whole names, or its modules are counted.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
    """
    return _matched_parameters(origins, models, flow) + _counted_modules(origins, models, flow)


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
        MatchedName(node=call, index=index, whose=index.source.code(call.func.value), anchors={"state": call})
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


def of_model(node: cst.BaseExpression, origins: set[Origin], flow: Flow) -> bool:
    """Whether an expression is the model, or a part of it: `model.module.encoder`.

    Args:
        origins: where the model is built.
    """
    scope = flow.index.scope_of(node)
    return any(not origins.isdisjoint(flow.deep_origins(part, scope)) for part in (node, *_roots(node)))


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
