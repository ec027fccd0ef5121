"""Find copies of the model's weights that are made before the training, and that it goes by all along."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.holding import Holding
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import dotted, method_name, receiver
from retrofit.survey.order import after_model
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.call import CallSite
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.model import Model
from retrofit.survey.sites.optimizer import Optimizer
from retrofit.survey.weights import changed_in_place, of_model, walked_module

#: Methods by which the weights of a model are walked through.
_WEIGHTS = re.compile("(named_)?parameters|state_dict|values|items")
#: What a copy that is kept, or taken back, is given to.
_KEEPING = ("load_state_dict", "save", "print", "len")


def find_starting_points(
    origins: set[Origin], models: list[Model], optimizers: list[Optimizer], loops: list[EpochLoop], flow: Flow
) -> list[CallSite]:
    """Return what copies weights of the model that training then stays close to, or measures its way from.

    A restarted round copies those that the rounds before have trained.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
        optimizers: that train it. One of the project's own may go by copies that it is given.
        loops: the epoch loops.
    """
    index, points = flow.index, _StartingPoints(origins, models, loops, flow)
    copies = [*points.copies(), *points.fixed()]
    built = [flow.origins(cst.parse_expression(one.target), one.scope) for one in optimizers if one.target]
    own = [one.node for some in built for one in some if isinstance(one.node, cst.Call)]
    own = [one for one in own if not index.qualified(one.func).startswith("torch.optim.")]
    every = {node for _, holders in copies for node in holders}
    found = []
    for call, holders in copies:
        copy = Holding(holders, flow)
        taken = any(copy.holds(arg.value) for one in own for arg in one.args)
        if (taken or points.read(holders, every)) and not points.changed(copy):
            found.append(CallSite(node=call, index=index))
    return found


class _StartingPoints:
    def __init__(self, origins: set[Origin], models: list[Model], loops: list[EpochLoop], flow: Flow) -> None:
        self._flow, self._index, self._made, self._models = flow, flow.index, origins, models
        self._loops = {loop.statement for loop in loops}
        self._training = called_in(flow.index, flow, *self._loops)
        walks = self._index.method_calls("parameters", "named_parameters", "state_dict")
        of_model = [call for call, held in walks if not origins.isdisjoint(self._origins(held))]
        self._weights = Holding(of_model, flow)

    def _origins(self, node: cst.BaseExpression) -> set[Origin]:
        return self._flow.closure(set(self._flow.origins(node, self._index.scope_of(node))))

    def _trains(self, here: Statement) -> bool:
        return here.scope in self._training or not self._loops.isdisjoint(here.path)

    def copies(self) -> Iterator[tuple[cst.Call, set[cst.CSTNode]]]:
        """Yield what copies weights of the model before the training, each with the values that hold the copy."""
        for call in self._index.calls:
            given = self._copied(call) or (receiver(call) if method_name(call) == "clone" else None)
            if given is not None and self._is_ahead(call) and self._weights.holds_in_turn(given):
                yield call, set(self._holders(call, self._index.statement(call)))

    def fixed(self) -> Iterator[tuple[cst.Call, set[cst.CSTNode]]]:
        """Yield the same of the model itself, where that copy stays as it is, and no file gives it other weights.

        One that is made between stages of a training is of the stage before it.
        """
        for call in self._index.calls:
            given, here = self._copied(call), self._index.statement(call)
            if given is None or not of_model(given, self._made, self._flow) or not self._is_ahead(call):
                continue
            ways = [part for way in self._flow.leading(here) for part in way.around]
            holders = {call, *self._holders(call, here)}
            if not any(isinstance(one.node, (cst.For, cst.While)) for one in ways) and not self._moves(holders):
                yield call, holders

    def _copied(self, call: cst.Call) -> cst.BaseExpression | None:
        """Return what a call copies whole."""
        return call.args[0].value if self._index.qualified(call.func) == "copy.deepcopy" and call.args else None

    def _is_ahead(self, call: cst.Call) -> bool:
        """Whether a call comes between the perforated model and its training."""
        here = self._index.statement(call)
        return not self._trains(here) and any(after_model(here, model, self._flow) for model in self._models)

    def _moves(self, holders: set[cst.CSTNode]) -> bool:
        """Whether something gives a copied model weights, as what is not read may that gets it in training."""
        for call in self._index.calls:
            reads = self._flow.called(call) is not None or not self._trains(self._index.statement(call))
            given = [] if reads or method_name(call) in _KEEPING else [arg.value for arg in call.args]
            loaded = receiver(call) if method_name(call) == "load_state_dict" else None
            for node in [*given, *([loaded] if loaded is not None else [])]:
                held = walked_module(node, _WEIGHTS) or node
                if not holders.isdisjoint(one.node for one in self._origins(held)):
                    return True
        return False

    def _holders(self, call: cst.Call, here: Statement) -> Iterator[cst.CSTNode]:
        """Yield the value that a copy is, or is in, and what it is made an item of."""
        around = {call, *self._index.ancestors(call)}
        yield from (bound.value for bound in self._index.bound_in(here) if bound.value in around)
        for node in around:
            for target in node.targets if isinstance(node, cst.Assign) else ():
                if isinstance(target.target, cst.Subscript):
                    yield from (one.node for one in self._origins(target.target.value))

    def read(self, holders: set[cst.CSTNode], every: set[cst.CSTNode]) -> bool:
        """Whether the training reads what holds a copy, for more than to keep it, and nothing else than copies there.

        Args:
            holders: the values that hold it.
            every: those that hold any.
        """
        for node in (*self._index.nodes_of(cst.Name), *self._index.attributes):
            if not self._trains(self._index.statement(node)):
                continue
            made = {one.node for one in self._origins(node) if dotted(one.node) != "None"}
            if not made.isdisjoint(holders) and made <= every and not self._keeps(node):
                return True
        return False

    def _keeps(self, node: cst.CSTNode) -> bool:
        """Whether a name is only given to what keeps its value, to a local function, or asked whether there is any."""
        inside = (cst.Arg, cst.Index, cst.Dict, cst.DictElement)  # a checkpoint has it as an item
        around = next(one for one in self._index.ancestors(node) if not isinstance(one, inside))
        if isinstance(around, cst.Call) and around.func is not node:
            return method_name(around) in _KEEPING or self._flow.called(around) is not None
        denied = isinstance(around, cst.UnaryOperation) and isinstance(around.operator, cst.Not)
        return denied or isinstance(around, (cst.Comparison, cst.BooleanOperation, cst.If))

    def changed(self, copy: Holding) -> bool:
        """Whether the training changes a copy."""
        given = [one for one, _ in changed_in_place(self._index)]
        given += [
            target.target.value
            for node in self._index.nodes_of(cst.Assign)
            for target in node.targets
            if isinstance(target.target, cst.Subscript)
        ]
        return any(self._trains(self._index.statement(one)) and copy.holds_in_turn(one) for one in given)
