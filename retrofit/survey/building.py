"""Tell where the building of a model ends: what still changes its layers or weights comes before its dendrites."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.knowledge.kinds import SumsUp
from retrofit.survey.conditions import leaves_if, rules_out
from retrofit.survey.constructions import optimizer_statements
from retrofit.survey.flow import Flow
from retrofit.survey.holding import Holding
from retrofit.survey.index import Index
from retrofit.survey.layers import puts_in
from retrofit.survey.nodes import dotted, last_name, mentions, method_name, receiver, spelled
from retrofit.survey.order import leaves, ways_to
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.weights import is_resume
from retrofit.survey.wrappers import wrapper_kind

#: What makes a copy of a model, or an average of it, by its name.
_COPYING = re.compile(r"deepcopy|ema|average|shadow", re.IGNORECASE)
#: Methods that change a model, or whether its parameters train.
_CHANGING = frozenset({"load_state_dict", "apply", "requires_grad_"})
#: Names of functions that change the layers of a model in place.
_CHANGES_LAYERS = re.compile(
    r"_*(prepare|convert|replace|quanti[sz]e|prune|inject|fuse|(un)?freeze|patch|insert|swap|modify|adapt|change)(_|$|[A-Z])"
)


def last_of_building(
    flow: Flow, built: Statement, target: str, wrappers: list[Wrapper], training: set[Statement]
) -> Statement:
    """Return the last statement of the building: a head that is replaced, pretrained weights, layers that are frozen.

    Those know the layers by the names that they have before dendrites, and a library that tells of them by their kinds.
    A checkpoint to resume from is none of them: it was written by a training with dendrites, and what a library tells
    after it is of those too.

    Args:
        training: the statements that lead to the epoch loop.
    """
    index = flow.index
    used = needing(flow, built, target, wrappers)
    loading = _loading_calls(flow, target, built, training)
    holding = Holding({b.value for b in index.bound_in(built) if b.value is not None}, flow)
    putting = [index.statement(node) for node, held in puts_in(flow) if holding.holds(held)]
    ways = [here for one in putting for here in ways_to(one, flow).get(built.scope, ())]
    putting = [here for here in ways if here not in training]
    known = index.knowledge.known
    summing = [call for call in index.calls if known(SumsUp, index.qualified(call.func))]
    telling = [index.statement(call) for call in summing if any(_is_of(arg.value, target) for arg in call.args)]
    acting = [target, *_made_around(flow, built, target)]
    finished = block = built
    resumed = False
    while block.scope is built.scope:
        for statement in block.following:
            if statement in training or any(statement in user.path for user in used):
                return finished
            here = [call for call in loading if statement in index.statement(call).path]
            put = any(statement in place.path for place in putting)
            changed = (
                bool(here) or put or _changes(index, statement, target) or bool(_told(flow, statement, acting, set()))
            )
            resumes = changed and is_resume(flow, statement, here, any(map(_loads, here)))
            resumed = resumed or resumes
            told = not resumed and any(statement in place.path for place in telling)
            if _ends_for_some(statement, flow) or told or (changed and not resumes):
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


def needing(flow: Flow, built: Statement, target: str, wrappers: list[Wrapper]) -> set[Statement]:
    """Return what needs the perforated model where it is built: it wraps or copies it, or builds its optimizer."""
    index = flow.index
    using = {wrapper.statement for wrapper in wrappers}
    using.update(optimizer_statements(index))
    using.update(index.statement(c) for c in index.calls if wrapper_kind(flow, c))
    used = {here for statement in using for here in ways_to(statement, flow).get(built.scope, ())}
    used.update(b.statement for b in index.bindings if spelled(b.value) == target or _copies(b.value, target))
    return used


def _is_of(node: cst.BaseExpression, name: str) -> bool:
    """Whether an expression is a model, or what methods of it give: `model.to(device)`."""
    while spelled(node) != name and isinstance(node, cst.Call) and (held := receiver(node)) is not None:
        node = held
    return spelled(node) == name


def _gets(call: cst.Call, name: str) -> bool:
    """Whether a call is given what has a name, as a whole."""
    return any(spelled(arg.value) == name for arg in call.args)


def _made_around(flow: Flow, built: Statement, name: str) -> list[str]:
    """Return the names of what classes that are not read make of the model: `delta = AdapterModel(model)`."""
    index = flow.index
    made = [(b.target, b.value) for b in index.bindings if b.statement.scope is built.scope]
    return [
        target
        for target, value in made
        if isinstance(value, cst.Call)
        and _gets(value, name)
        and flow.called(value) is None
        and flow.class_made(value) is None
    ]


def _ends_for_some(statement: Statement, flow: Flow) -> bool:
    """Whether some calls of a function, by the constants that they give, end at an early `return` of it."""
    rest = statement.following[:1] if leaves_if(statement) is not None else []
    calls = [call for call in flow.callers(statement.scope) if not rules_out(statement, call, flow)]
    return any(rules_out(one, call, flow) for one in rest for call in calls)


def _told(flow: Flow, statement: Statement, names: list[str], seen: set[Scope]) -> list[cst.Call]:
    """Return where a statement calls a method of a model, or of what acts on it, that may change it.

    One that is called for what it returns may do so where it is read to.

    Args:
        seen: the functions that are being looked at.
    """
    index = flow.index
    calls = [call for call in index.calls_in(statement) if method_name(call) not in index.knowledge.module_methods]
    held = [(call, receiver(call)) for call in calls]
    told = [call for call, one in held if one is not None and any(_is_part(one, name) for name in names)]
    plain = [call for call in told if isinstance(index.parents.get(call), cst.Expr)]
    return plain + [c for c in told if c not in plain and flow.called(c) and _changes_itself(c, flow, seen)]


def _copies(value: cst.BaseExpression | None, name: str) -> bool:
    """Whether a value is a copy of the model of that name, which needs its dendrites too."""
    return isinstance(value, cst.Call) and _gets(value, name) and _COPYING.search(dotted(value.func) or "") is not None


def _is_part(node: cst.CSTNode, name: str) -> bool:
    """Whether an expression is what has a name, or a part of it: `model.layers[0]`, `getattr(model, "head").weight`."""
    while spelled(node) != name:
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        elif isinstance(node, cst.Call) and dotted(node.func) == "getattr" and node.args:
            node = node.args[0].value
        else:
            return False
    return True


def _changes(index: Index, statement: Statement, name: str) -> bool:
    """Whether a statement changes layers or weights of the model that has this name there, or of a part of it."""
    targets = [binding.target for binding in index.bound_in(statement)]
    if any(target.startswith(f"{name}.") for target in targets):
        return True
    calls = index.calls_in(statement)
    if any(_changes_part(call, name) for call in calls):
        return True
    if any(spelled(call.func) == name for call in calls) and _builds_lazily(index):
        return True  # the first forward pass gives its layers their parameters
    if any(target.endswith(".requires_grad") for target in targets) and mentions(statement.node, [name]):
        return True
    walked = [
        loop
        for loop in index.loops
        if isinstance(loop.node, cst.For) and statement in loop.path and _goes_through(loop.node.iter, name)
    ]
    return any(_in_place(one) for loop in walked for one in index.calls_in(loop)) or any(
        re.search(r"\.(data|weight|bias)(\[.*)?$", binding.target)
        for loop in walked
        for binding in index.bound_in(loop)
    )


def _builds_lazily(index: Index) -> bool:
    """Whether anything makes a layer of torch's whose parameters get their shapes as it runs first."""
    return any(index.qualified(call.func).startswith("torch.nn.Lazy") for call in index.calls)


def _changes_part(call: cst.Call, name: str) -> bool:
    """Whether a call changes a model or a part of it: `model.load_state_dict(x)`, `init.zeros_(model.head.bias)`."""
    function = dotted(call.func) or ""
    if call.args and (function == "setattr" or re.search(r"\binit\.\w+_$", function)):
        return _is_part(call.args[0].value, name)
    if not isinstance(call.func, cst.Attribute) or not _is_part(call.func.value, name):
        return False
    method, weights = call.func.attr.value, re.search(r"\.(weight|bias)\b", dotted(call.func.value) or "")
    return method in _CHANGING or method.startswith("set_") or (weights is not None and _in_place(call))


def _in_place(call: cst.Call) -> bool:
    """Whether a call changes a tensor, or gives one its first values: `x.zero_()`, `init.normal_(x)`."""
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    return name.endswith("_") or ".init." in f".{dotted(call.func)}"


def _goes_through(walk: cst.BaseExpression, name: str) -> bool:
    """Whether a loop goes through the layers or parameters of a model: `list(model.named_modules())`."""
    if not isinstance(walk, cst.Call):
        return False
    method = walk.func.attr.value if isinstance(walk.func, cst.Attribute) else ""
    if isinstance(walk.func, cst.Attribute) and method.removeprefix("named_") in ("modules", "children", "parameters"):
        return _is_part(walk.func.value, name)
    return any(_goes_through(arg.value, name) for arg in walk.args)


def _loads(call: cst.Call) -> bool:
    """Whether a call loads weights, or makes first ones, by its name."""
    return re.match(r"_*(load|init)_", last_name(call.func)) is not None


def _loading_calls(flow: Flow, target: str, built: Statement, training: set[Statement]) -> list[cst.Call]:
    """Return the calls beside the building that load weights into the model or change it.

    Args:
        training: the statements that lead to the epoch loop.
    """
    index = flow.index

    def changes(call: cst.Call) -> bool:
        function = flow.called(call)
        if index.statement(call) in training or (function is not None and function.name == "__init__"):
            return False
        plain = isinstance(index.parents.get(call), cst.Expr)
        if function is None and plain and _CHANGES_LAYERS.match(last_name(call.func)):
            return True  # of a module that is not read
        return _changes_what_it_gets(call, target, flow, set())

    given = [call for call in index.calls_of(built.scope) if _gets(call, target)]
    return [call for call in given if _loads(call) or changes(call)]


def _changes_what_it_gets(call: cst.Call, target: str, flow: Flow, seen: set[Scope]) -> bool:
    """Whether a function, or one that it calls, changes layers or weights of the model that a call gives it.

    Args:
        target: the model's name where the call is.
        seen: the functions that are being looked at.
    """
    function = flow.called(call)
    if function is None or function in seen:
        return False
    values = [arg.value for arg in call.args if spelled(arg.value) == target]
    given = [n for n in function.parameters if any(one.value in values for one in flow.sources((function, n)))]
    return any(_changes_own(function, name, flow, seen) for name in given)


def _changes_own(function: Scope, name: str, flow: Flow, seen: set[Scope]) -> bool:
    """Whether a function, or one that it calls, changes layers or weights of the model that has a name in it."""
    index, seen = flow.index, seen | {function}
    own = index.statement(function.node)
    if _changes(index, own, name) or any(_changes_itself(one, flow, seen) for one in _told(flow, own, [name], seen)):
        return True
    return any(_changes_what_it_gets(one, name, flow, seen) for one in index.calls_of(function))


def _changes_itself(call: cst.Call, flow: Flow, seen: set[Scope]) -> bool:
    """Whether a method, or one that it calls, changes its object's layers or weights; so may one that is not read."""
    method = flow.called(call)
    if method is None or method in seen:
        return method is None
    return any(_changes_own(method, name, flow, seen) for name in method.parameters[:1])
