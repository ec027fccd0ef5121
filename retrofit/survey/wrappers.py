"""Find where models are wrapped for several devices."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

import libcst as cst

from retrofit.knowledge.kinds import Loss, Wraps
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.conditions import never_runs, rules_out
from retrofit.survey.constructions import find_constructions
from retrofit.survey.defaults import Defaults
from retrofit.survey.flow import Flow
from retrofit.survey.holders import modules_walked
from retrofit.survey.index import Index
from retrofit.survey.names import Variable
from retrofit.survey.nodes import (
    argument,
    calls_one_of,
    dotted,
    is_choice,
    key_of,
    method_name,
    names_in,
    nodes_in,
    spelled,
)
from retrofit.survey.order import one_after_the_other
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.model import UnnamedModel
from retrofit.survey.sites.wrapper import Wrapper

#: What no bare model has, and what some have as well, or ask for where there is no wrapper.
_WRAPPER_MEMBERS = frozenset(
    {"no_sync", "join", "register_comm_hook", "require_backward_grad_sync", "_set_static_graph"}
)
_SHARED_MEMBERS = {"ddp": ("module", "device"), "dp": ("module",)}


#: What may hold a value within a statement, and is evaluated after it.
_HOLDING = (cst.DictElement, cst.Dict, cst.Tuple, cst.List, cst.Element, cst.Arg, cst.Call, cst.Attribute)


def wrapper_kind(flow: Flow, call: cst.Call) -> str:
    """Return "ddp" or "dp" for a wrapper call, "" for any other."""
    name = flow.class_called(call)
    known = flow.index.knowledge.known(Wraps, name)
    return known.by if known is not None else ""


def of_each(index: Index, call: cst.Call) -> bool:
    """Whether a comprehension makes a call for each of what it goes through: `{k: DDP(m) for k, m in nets.items()}`."""
    return any(isinstance(around, cst.BaseComp) for around in index.ancestors(call))


def find_wrappers(index: Index, flow: Flow) -> list[Wrapper]:
    """Return every DistributedDataParallel and DataParallel call of a file."""
    found: list[Wrapper] = []
    constants = Defaults(index, flow, options=False)

    def is_idle(call: cst.Call) -> bool:
        return constants.leave_out(call) or never_runs(index.statement(call), flow)

    begun = [c for c in index.calls_to("torch.distributed.init_process_group") if not is_idle(c)]
    begins = any(flow.uncalled(index.statement(one)) is None for one in begun)
    for call in index.calls:
        kind = wrapper_kind(flow, call)
        operand = flow.wrapped(call) if kind else None
        if operand is None or _wraps_again(index, call) or _is_loss(flow, operand, call):
            continue
        whole, chain = _chain(index, call)
        target, others = _targets(index, whole)
        module = _module_name(flow, operand, index.scope_of(call))
        target = target or _own_item(index, whole, module)
        returned = bool(module) and isinstance(_holder(index, whole), cst.Return)
        spread = [("mapping", arg.value) for arg in call.args if arg.star == "**"]
        meant = list(flow.meanings(call.func, index.scope_of(call)))
        made = flow.called(call)  # the `__init__` of the project's own class
        parameters = index.knowledge.wrapper_parameters(flow.class_called(call))
        takes = _takes_unused(made) if made is not None else kind == "dp" or "find_unused_parameters" in parameters
        found.append(
            Wrapper(
                node=call,
                index=index,
                kind=kind,
                target=target,
                others=others,
                operand=index.source.code(operand),
                module=module,
                chain=chain,
                part=_is_part(flow, operand, call),
                returned=returned,
                fresh="" if target or returned else _name_before(index, whole, module, found),
                moved="" if module else split_moves(flow, operand)[1],
                preset=[arg for _, given in meant for arg in given],
                kinds=_kinds(index, meant) or (kind,),
                choice=_choice(index, meant),
                idle=not begins and is_idle(call),
                closed="" if takes else index.source.code(call.func),
                alone=_group_of_one(flow, call),
                anchors={"operand": operand, "call": call, "function": call.func, "whole": whole, **dict(spread[-1:])},
            )
        )
    return found


def _kinds(index: Index, meant: Sequence[tuple[str, object]]) -> tuple[str, ...]:
    """Return the kinds of the wrappers of which one is called."""
    return tuple(by for by, names in index.knowledge.wrappers.items() if any(full in names for full, _ in meant))


def new_groups(index: Index, made: Collection[Origin]) -> list[cst.Call]:
    """Return the calls of `new_group` among what may make a value."""
    calls = [one.node for one in made if isinstance(one.node, cst.Call)]
    return [one for one in calls if index.qualified(one.func) == "torch.distributed.new_group"]


def _group_of_one(flow: Flow, call: cst.Call) -> str:
    """Return where a process group is made that a wrapper is given, if it is always of one process, else ""."""
    index, given = flow.index, argument(call, "process_group")
    made = flow.origins(given, index.scope_of(call)) if given is not None else []
    groups = new_groups(index, made)
    ranks = [argument(one, "ranks", 0) for one in groups]
    lists = [one for one in ranks if isinstance(one, (cst.List, cst.Tuple)) and len(one.elements) == 1]
    single = [one for one in lists if isinstance(one.elements[0], cst.Element)]
    return index.place(groups[0], index.file(call)) if made and len(single) == len(made) else ""


def _choice(index: Index, meant: Sequence[tuple[str, object]]) -> str:
    """Return the wrappers of which one is called, where it may be something else as well."""
    names = [full.rpartition(".")[2] for full, _ in meant if index.knowledge.known(Wraps, full) is not None]
    return " or ".join([*dict.fromkeys(names), "something else"]) if names and len(names) < len(meant) else ""


def wrapping_calls(wrapper: Wrapper, flow: Flow) -> list[cst.Call]:
    """Return the calls of a function by which it comes to its wrapper, as far as they give it constants."""
    own = [one.value for one in wrapper.by if wrapper.shared and isinstance(one.value, cst.Call)]
    return own or _calls_to(wrapper.statement, flow)


def _calls_to(here: Statement, flow: Flow) -> list[cst.Call]:
    """Return the same for any statement; others may only move tensors: `def to_device(what, parallel=False)`."""
    return [call for call in flow.callers(here.scope) if not rules_out(here, call, flow)]


def wrapped_origins(wrapper: Wrapper, flow: Flow) -> set[Origin]:
    """Return where what is wrapped is made."""
    operand = wrapper.anchors["operand"]
    assert isinstance(operand, cst.BaseExpression)
    return _made(flow, operand, wrapper.statement, wrapping_calls(wrapper, flow))


def _made(flow: Flow, operand: cst.BaseExpression, here: Statement, calls: list[cst.Call]) -> set[Origin]:
    every = not calls or len(calls) == len(flow.callers(here.scope))
    return set(flow.origins(operand, here.scope) if every else flow.origins_by(operand, here.scope, calls))


def _is_loss(flow: Flow, operand: cst.BaseExpression, call: cst.Call) -> bool:
    """Whether what is wrapped is a loss, one of several perhaps, which has nothing to train."""
    here = flow.index.statement(call)
    made = [origin.node for origin in flow.closure(_made(flow, operand, here, _calls_to(here, flow)))]
    losses = flow.index.knowledge.named(Loss)
    return any(isinstance(node, cst.Call) and flow.index.qualified(node.func) in losses for node in made)


def _wraps_again(index: Index, call: cst.Call) -> bool:
    """Whether a call stands where a wrapper is found, in a function that converts what is in one by calling itself."""
    inside, itself = [call, *index.ancestors(call)], index.scope_of(call).name
    return any(
        isinstance(part, cst.If)
        and part.body in inside
        and isinstance(part.test, cst.Call)
        and dotted(part.test.func) == "isinstance"
        and any(name.endswith(("DataParallel", "DDP")) for name in names_in(part.test, called=False))
        and any(isinstance(one, cst.Call) and dotted(one.func) == itself for one in nodes_in(part.body))
        for part in inside
    )


def answers(site: Site, name: str) -> list[str]:
    """Return what may name a model at a site, the shortest first: `model`, `Trainer.model`, `lib/train.py:model`.

    The owner is the class or the function of the site.

    Args:
        site: where it is wrapped or trained.
        name: the model's name there.
    """
    owners = [owner for owner in (site.scope.enclosing_class, site.scope) if owner is not None and owner.name]
    file = f"{site.file.source.shown}:"
    owned = [f"{owner.name}.{name}" for owner in owners]
    return list(dict.fromkeys([name, *owned, f"{file}{name}", *(f"{file}{one}" for one in owned)]))


def _answers(wrapper: Wrapper) -> list[str]:
    own = [] if wrapper.shared else answers(wrapper, wrapper.target or wrapper.module or wrapper.operand)
    calls = [(Site(node=one.statement.node, index=wrapper.index), one.target) for one in wrapper.by]
    return own + [answer for call, name in calls for answer in answers(call, name)]


def _names(wrapper: Wrapper) -> list[str]:
    """Return everything that names a wrapper's model."""
    return [*([] if wrapper.shared else [wrapper.module, wrapper.target]), *_answers(wrapper)]


def names_wrapper(answer: str, wrapper: Wrapper) -> bool:
    """Whether the user's choice of a model means a wrapper's."""
    return answer in _names(wrapper)


def one_for_each(wrappers: list[Wrapper], flow: Flow) -> Iterator[Wrapper]:
    """Yield a wrapper for each model that calls of its function wrap by it, as the names tell that they give them."""
    bound = [_naming(wrapper, flow) for wrapper in wrappers]
    models = {(wrapper.scope, one.target) for wrapper, some in zip(wrappers, bound, strict=True) for one in some}
    for wrapper, some in zip(wrappers, bound, strict=True):
        shared = sum(scope is wrapper.scope for scope, _ in models) > 1
        for name in dict.fromkeys(one.target for one in some):
            yield replace(wrapper, by=[one for one in some if one.target == name], shared=shared)
        if not some:
            yield wrapper


def _naming(wrapper: Wrapper, flow: Flow) -> list[Binding]:
    """Return what gives a name to what a function gives back that wraps what it is given."""

    def is_wrapped(item: int | None) -> bool:
        if wrapper.returned:
            return item is None
        given = [dotted(one) for one, left in flow.returned(wrapper.scope, item) if left is None]
        return wrapper.target in given and wrapper.module in wrapper.scope.parameters

    calls = wrapping_calls(wrapper, flow) or flow.callers(wrapper.scope)
    return [one for call in calls for one in flow.index.bindings if one.value is call and is_wrapped(one.item)]


def told_apart(groups: list[list[Wrapper]]) -> list[str]:
    """Return the shortest answer that means one group of wrappers and no other, for each; "" where there is none."""
    meant = [{name for one in group for name in _names(one)} for group in groups]
    named = [[name for name in _answers(group[0]) if "(" not in name] for group in groups]  # no call is an answer
    return unlike(named, meant)


def unlike(offered: list[list[str]], meant: Sequence[Collection[str]]) -> list[str]:
    """Return the first answer offered for each of several things that means none of the others, "" for no such.

    Args:
        offered: what may name each, the best first.
        meant: everything that names each.
    """
    return [
        next((one for one in mine if not any(one in names for n, names in enumerate(meant) if n != number)), "")
        for number, mine in enumerate(offered)
    ]


def _takes_unused(function: Scope) -> bool:
    """Whether a wrapper class's `__init__` can be given find_unused_parameters."""
    assert isinstance(function.node, cst.FunctionDef)
    return "find_unused_parameters" in function.parameters or function.node.params.star_kwarg is not None


def _chain(index: Index, call: cst.BaseExpression) -> tuple[cst.BaseExpression, str]:
    """Follow `.cuda()` and the like called on the wrapper; return the whole expression and the code of what follows."""
    moves = takewhile(lambda one: method_name(one) in index.knowledge.module_methods, index.called_on(call))
    whole = [call, *moves][-1]
    return whole, index.source.code(whole)[len(index.source.code(call)) :]


def split_moves(flow: Flow, value: cst.BaseExpression) -> tuple[str, str]:
    """Split the code of `Net().to(device)` into what builds and what moves, each as it stands at the left margin."""
    index, here = flow.index, value
    while method_name(here) in index.knowledge.moving_methods and (held := flow.module_operand(here)) is not None:
        here = held
    built, whole = at_margin(index, here), at_margin(index, value)
    moved = whole[whole.index(built) + len(built) :]
    for _ in value.rpar if here is not value else ():
        moved = moved.rstrip().removesuffix(")").rstrip()
    return f"({built})" if isinstance(here, cst.NamedExpr) and not here.lpar else built, moved


def at_margin(index: Index, node: cst.BaseExpression) -> str:
    """Return an expression's code, its further lines without the indentation of its statement."""
    code = index.source.code(node)
    if '"""' in code or "'''" in code:
        return code
    margin = index.source.position(index.statement(node).node)[1] - 1
    return re.sub(rf"\n[ \t]{{{margin}}}", "\n", code)


def _targets(index: Index, value: cst.BaseExpression) -> tuple[str, list[str]]:
    """Return the name that a value is assigned to, "" for none, and those that it gets in the same statement."""
    assign = _holder(index, value)
    if isinstance(assign, cst.AnnAssign):
        return dotted(assign.target) or "", []
    targets = [dotted(one.target) for one in assign.targets] if isinstance(assign, cst.Assign) else []
    names = [name for name in targets if name is not None]
    return (names[0], names[1:]) if names and len(names) == len(targets) else ("", [])


def _own_item(index: Index, value: cst.BaseExpression, module: str) -> str:
    """Return the item that a value takes the place of where a condition decides on it: another name may lack it then.

    Args:
        module: the name of what is wrapped.
    """
    assign = _holder(index, value)
    same = isinstance(assign, cst.Assign) and [spelled(one.target) for one in assign.targets] == [module]
    chosen = isinstance(index.parents[value], cst.IfExp) or any(
        is_choice(p.node) for p in index.statement(value).around
    )
    return module if same and chosen else ""


def _holder(index: Index, value: cst.BaseExpression) -> cst.CSTNode | None:
    """Return what holds a value, perhaps as one of two."""
    return next((node for node in index.ancestors(value) if not isinstance(node, cst.IfExp)), None)


def _name_before(
    index: Index, whole: cst.BaseExpression, module: str, others: Sequence[Wrapper] = (), made: str = "wrapped"
) -> str:
    """Return a name that a value can get by a statement of its own before it is used, "" where that is another program.

    Args:
        whole: the value: an item of a display, an argument, or what an item gets.
        module: the name of what is wrapped.
        others: the wrappers before it.
        made: what tells it from others of the name.
    """
    line = index.statement(whole)
    holder, key = index.parents[whole], "model" if not module else module.rpartition(".")[2]
    while isinstance(holder, _HOLDING):
        key = _key(holder.key) or key if isinstance(holder, cst.DictElement) else key
        holder = index.parents[holder]
    if any(isinstance(part.node, (cst.For, cst.While)) for part in (line, *line.around)) or not isinstance(
        holder, (cst.Assign, cst.AnnAssign, cst.Expr, cst.Return)
    ):
        return ""
    named = [one.anchors["whole"] for one in others if one.fresh]
    begin = index.source.span(whole)[0]
    for call in index.calls_in(line):
        early = index.source.span(call)[1] <= begin and dotted(call.func) != "super"
        if early and not any(one in named for one in (call, *index.ancestors(call))):
            return ""  # it runs before, and may do so for a reason
    target = holder.targets[0].target if isinstance(holder, cst.Assign) and holder.value is whole else None
    if isinstance(target, cst.Subscript) and isinstance(target.slice[0].slice, cst.Index):
        key = _key(target.slice[0].slice.value) or key
    parents = ((node.value, index.parents[node]) for node in index.nodes_of(cst.Name))
    taken = {name for name, parent in parents if not isinstance(parent, cst.Attribute) or dotted(parent.value) == name}
    taken |= {name for scope in index.scopes for name in scope.names} | {one.fresh for one in others}
    return next(name for name in (key, f"{made}_{key}", *(f"{key}_{n}" for n in range(2, 99))) if name not in taken)


def unnamed_models(index: Index, origins: Collection[Origin]) -> list[UnnamedModel]:
    """Return the only expression that builds a model, where no name gets it, but one could: `Trainer(Net())`.

    So is one that takes it out of what holds several: `Trainer(nets[args.net])`.
    """
    node = next(iter(origins)).node if len(origins) == 1 else None
    if not isinstance(node, (cst.Call, cst.Subscript)):
        return []
    whole, _ = _chain(index, node)
    fresh = "" if _targets(index, whole)[0] else _name_before(index, whole, "", made="built")
    return [UnnamedModel(node=node, index=index, fresh=fresh, anchors={"whole": whole})] if fresh else []


def _key(node: cst.BaseExpression) -> str:
    """Return the word that a key is, "" for any other."""
    word = node.evaluated_value if isinstance(node, cst.SimpleString) else ""
    return word if isinstance(word, str) and word.isidentifier() and not keyword.iskeyword(word) else ""


def _module_name(flow: Flow, operand: cst.BaseExpression, scope: Scope) -> str:
    here: cst.BaseExpression | None = operand
    while here is not None:
        name = spelled(here)
        known = dotted(here) is not None or any(one.node is not here for one in flow.origins(here, scope))
        if name is not None and known:  # an item that nobody knows is as what a call builds
            return name
        here = flow.module_operand(here) or _given_back(flow, here, scope)
    return ""


def unmoved(value: cst.BaseExpression, flow: Flow) -> cst.BaseExpression:
    """Return what an expression moves to a device, or wraps, and gives back: `net` for `net.to(device).train()`."""
    operand = flow.module_operand(value)
    return value if operand is None else unmoved(operand, flow)


def _given_back(flow: Flow, call: cst.BaseExpression, scope: Scope) -> cst.BaseExpression | None:
    """Return the model that a function of the project is given and gives back, where it is complete by then.

    An optimizer, or a recipe, has it: dendrites that came after what the function does would come too late. So it is
    where another branch wraps it without that function.
    """
    index, made = flow.index, set(flow.origins(call, scope))
    if not isinstance(call, cst.Call) or flow.called(call) is None or not made:
        return None
    given = [arg.value for arg in call.args if spelled(arg.value) and made == {*flow.origins(arg.value, scope)}]
    taking: list[cst.CSTNode] = []
    if given:
        taking = [one.node for one in find_constructions(index, flow, made, frozenset())]
        taking += [one for one in index.calls_of(scope) if index.is_provided(one.func) and _passes(flow, one, made)]
    here = index.statement(call)
    wrapping = [one for one in index.calls_of(scope) if given and wrapper_kind(flow, one)]
    plain = [index.statement(one) for one in wrapping if spelled(unmoved(one, flow)) == spelled(given[0])]
    complete = any(_is_before(index.statement(one), here) for one in taking)
    return given[0] if complete or any(exclude_each_other(one, here) for one in plain) else None


def _passes(flow: Flow, call: cst.Call, made: set[Origin]) -> bool:
    return not made.isdisjoint(flow.origins(call, flow.index.scope_of(call)))


def _is_before(place: Statement, here: Statement) -> bool:
    return place.order < here.order and one_after_the_other(place, here)


def _is_part(flow: Flow, operand: cst.BaseExpression, call: cst.Call) -> bool:
    """Whether an optimizer trains more of what holds an attribute than that alone: of `model`, not `model.features`."""
    if not isinstance(operand, cst.Attribute) or operand.attr.value == "module":
        return False
    index, scope = flow.index, flow.index.scope_of(call)
    holders = flow.deep_origins(operand.value, scope)
    own = flow.deep_origins(operand, scope)

    modules = {one for one in holders if _is_module(flow, one)}

    def takes_more(node: cst.BaseExpression, inside: Scope) -> bool:
        """Whether an expression is the module that holds the attribute, or another part of it."""
        if own.isdisjoint(flow.deep_origins(node, inside)) and isinstance(node, (cst.Attribute, cst.Subscript)):
            part = node.attr.value if isinstance(node, cst.Attribute) else ""
            return part != operand.attr.value and takes_more(node.value, inside)
        return not modules.isdisjoint(flow.deep_origins(node, inside))

    for origin in find_constructions(index, flow, holders | own, frozenset()) if modules else ():
        given = [arg.value for arg in origin.node.args] if isinstance(origin.node, cst.Call) else []
        walked = [one for value in given for one in modules_walked(value, index.scope_of(value), flow)]
        named = [one for one in walked if one is not None] or [(value, index.scope_of(value)) for value in given]
        if any(takes_more(*one) for one in named):
            return True
    return False


def _is_module(flow: Flow, made: Origin) -> bool:
    """Whether a value is a module, rather than a trainer or options that have one: by its class, or as it is used."""
    own, methods = flow.class_made(made.node), flow.index.knowledge.module_methods - {"train"}
    root = flow.root(own) if own is not None else "unseen"
    if root in ("", "object") or root.startswith("torch.nn."):
        return root.startswith("torch.nn.")
    asked = (held for _, held in flow.index.method_calls("parameters", *methods))
    return any(made in flow.deep_origins(held, flow.index.scope_of(held)) for held in asked)


def mark_members(wrappers: list[Wrapper], flow: Flow, before_leaving: Collection[Statement]) -> None:
    """Note which wrappers do, before training leaves initialisation, what a bare model does not.

    Args:
        before_leaving: the statements that run in the initialisation run as well.
    """
    index = flow.index
    asking = [
        call
        for call in index.calls_to("isinstance")
        if len(call.args) == 2 and index.qualified(call.args[1].value) in index.knowledge.named(Wraps)
    ]
    insisting = [call for call in asking if isinstance(index.parents.get(call), cst.Assert)]
    given = [(b, b.value) for b in index.items if isinstance(b.value, (cst.Name, cst.Call))]
    for wrapper in wrappers:
        origins = set(flow.origins(wrapper.call, wrapper.scope))
        items = [b for b, value in given if not origins.isdisjoint(flow.origins(value, b.statement.scope))]

        def means_it(node: cst.BaseExpression, origins: set[Origin] = origins, items: list[Binding] = items) -> bool:
            there = flow.deep_origins(node, index.scope_of(node))
            return not origins.isdisjoint(there) or any(_may_be_item(node, one, flow) for one in items)

        for attribute in index.attributes:
            name = attribute.attr.value
            if (name in _WRAPPER_MEMBERS or name in _SHARED_MEMBERS[wrapper.kind]) and means_it(attribute.value):
                here = index.statement(attribute)
                if name in _WRAPPER_MEMBERS or here in before_leaving:
                    wrapper.uses.append(here)
        wrapper.members |= bool(wrapper.uses)
        wrapper.members |= any(means_it(call.args[0].value) for call in insisting)
        wrapper.members |= any(_of_any(attribute, flow) for attribute in index.attributes)
        devices, own = wrapper.given("device_ids", 1), flow.defined(wrapper.call.func, wrapper.scope)
        if own is not None and "__getattr__" in own.inner:
            continue  # it passes on the model's attributes, as no other wrapper does
        wrapper.own = wrapper.kind == "dp" and own is not None and own.kind == "class"
        wrapper.moves_inputs = "dp" in wrapper.kinds or (
            devices is not None
            and dotted(devices) != "None"
            and not asking  # such a script may treat what is no DistributedDataParallel as a bare model
            and any(call.args and means_it(call.func) and not _moved(call, flow) for call in index.calls)
        )


def _may_be_item(node: cst.BaseExpression, item: Binding, flow: Flow) -> bool:
    """Whether an expression takes an item by a key that is worked out, `models[name]`, of what is given one there."""
    name = dotted(node.value) if isinstance(node, cst.Subscript) and key_of(node) is None else None
    holder = item.target.partition("[")[0]
    return name is not None and flow.member(name, flow.index.scope_of(node)) == flow.member(
        holder, item.statement.scope
    )


def _moved(call: cst.Call, flow: Flow) -> bool:
    """Whether the script itself moves to a device what a call is given."""
    waiting = [(arg.value, flow.index.scope_of(call)) for arg in call.args]
    seen: set[Variable] = set()
    while waiting:
        value, scope = waiting.pop()
        if calls_one_of(value, "to"):
            return True
        if any("cuda" in word or "device" in word for word in flow.index.source.words(value)):
            return True
        for name in names_in(value, called=False):
            for variable in {flow.variable(name, scope), flow.variable(name.partition(".")[0], scope)} - seen:
                seen.add(variable)
                waiting += [(one.value, one.scope) for one in flow.sources(variable) if one.value is not None]
    return False


def _of_any(attribute: cst.Attribute, flow: Flow) -> bool:
    """Whether `.module` is read of a parameter of a function of which no call is seen: a loss's `forward`, a hook."""
    scope = flow.index.scope_of(attribute)
    return (
        attribute.attr.value == "module"
        and isinstance(attribute.value, cst.Name)
        and attribute.value.value in scope.parameters
        and attribute.value.value != "self"
        and not flow.callers(scope)
    )
