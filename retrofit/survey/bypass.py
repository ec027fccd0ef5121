"""Find where a training goes around its wrapper, so that the processes never average their gradients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

import libcst as cst

from retrofit import torch_api
from retrofit.survey.flow import Flow, Origin, Source
from retrofit.survey.index import Binding, Scope, dotted
from retrofit.survey.loops import called_in
from retrofit.survey.sites import Backward, CallSite, Wrapper

#: What a wrapper has that neither calls it nor gives it on.
_BESIDE = torch_api.WRAPPER_MEMBERS - torch_api.MODULE_METHODS - {"forward"}
_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")


def find_bypass(
    wrappers: list[Wrapper], backwards: list[Backward], origins: set[Origin], flow: Flow
) -> CallSite | None:
    """Return a call of the bare model around a backward pass, where nothing there can be a call of its wrapper.

    None where the script may average the gradients by itself.

    Args:
        wrappers: those of the model.
        backwards: the backward passes.
        origins: where the model is built.
    """
    index = flow.index
    loops = {backward.loop for backward in backwards if backward.loop is not None}
    scopes = called_in(index, flow, *loops).union(backward.scope for backward in backwards)
    calls = [call for loop in loops for call in index.calls_in(loop)]
    calls += [call for scope in scopes.difference(loop.scope for loop in loops) for call in index.calls_of(scope)]
    averaging = {index.scope_of(call) for call in calls if index.qualified(call.func).startswith("torch.distributed.")}
    by_hand = any(node.attr.value == "grad" and index.scope_of(node) in averaging for node in index.attributes)
    seen = all(one.kind == "ddp" and not one.part and (one.target or one.returned) for one in wrappers)
    if not seen or by_hand or index.method_calls(*_HOOKS):
        return None
    bare = next((call for call in calls if _forwards(call, origins, flow)), None)
    holding = _Holding({wrapper.node for wrapper in wrappers}, flow)
    if bare is None or any(holding.used_by(call) for call in calls):
        return None
    return CallSite(node=bare, index=index)


def _forwards(call: cst.Call, origins: set[Origin], flow: Flow) -> bool:
    """Whether a call is of the model, or of a method that the model has of its own."""
    func = call.func
    own = isinstance(func, cst.Attribute) and func.attr.value not in torch_api.WRAPPER_MEMBERS - {"forward"}
    made = [func, func.value] if isinstance(func, cst.Attribute) and own else [func]
    return any(not origins.isdisjoint(flow.origins(node, flow.index.scope_of(call))) for node in made)


class _Holding:
    """Tells what may hold a wrapper, as far as it could be called there; whatever is made of one may.

    Args:
        made: the calls that wrap.
        flow: of the whole project.
    """

    def __init__(self, made: Collection[cst.CSTNode], flow: Flow) -> None:
        self._made, self._flow, self._index = made, flow, flow.index
        self._free: set[tuple[Scope, str]] = set()
        self._parts: defaultdict[str, list[Binding]] = defaultdict(list)
        for bound in (*self._index.bindings, *self._index.items, *self._index.appended):
            whole, item, _ = bound.target.partition("[")
            if "." in whole or item:
                self._parts[whole[whole.rfind(".") :] if "." in whole else whole].append(bound)

    def used_by(self, call: cst.Call) -> bool:
        """Whether a call calls a wrapper, or gives it to code that is not seen."""
        given = [arg.value for arg in call.args] if self._flow.called(call) is None else []
        return self._hold([call.func, *given], self._index.scope_of(call))

    def _hold(self, nodes: list[cst.BaseExpression], scope: Scope) -> bool:
        waiting: list[tuple[cst.CSTNode, Scope]] = [(node, scope) for node in nodes]
        names, functions = set[tuple[Scope, str]](), set[Scope]()
        while waiting:
            node, scope = waiting.pop()
            if node in self._made:
                return True
            name = dotted(node)
            if name is not None:
                if _BESIDE.isdisjoint(name.split(".")[1:]) and (scope, name) not in names | self._free:
                    names.add((scope, name))
                    waiting += [(one.value, one.scope) for one in self._gives(name, scope) if one.value is not None]
                continue
            if isinstance(node, cst.Attribute) and node.attr.value in _BESIDE:
                continue
            function = self._flow.called(node) if isinstance(node, cst.Call) else None
            if function is not None and function not in functions:
                functions.add(function)
                waiting += [
                    (one.value, inside) for one, inside in self._index.returns if inside is function and one.value
                ]
            waiting += [(child, scope) for child in node.children]
        self._free |= names
        return False

    def _gives(self, name: str, scope: Scope) -> Iterator[Source]:
        """What gives a name, what stands before its dots, an item of it or such an attribute of any object a value."""
        parts = name.split(".")
        for number in range(1, len(parts) + 1):
            yield from self._flow.sources(self._flow.variable(".".join(parts[:number]), scope))
        for part in (parts[0], *(f".{attribute}" for attribute in parts[1:])):
            yield from (Source(one.value, one.statement.scope, one.item) for one in self._parts[part])
