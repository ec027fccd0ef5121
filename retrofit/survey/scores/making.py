"""What makes a value of the epoch loop: an evaluation of the model, or the pass that trains it."""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile

import libcst as cst

from retrofit.survey.branches import left_before
from retrofit.survey.conditions import SOMETHING, argument_of, constant, holds_with
from retrofit.survey.counters import changes
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import VALIDATES, called_in, mode_told
from retrofit.survey.nodes import (
    children,
    dotted,
    key_of,
    last_name,
    mentions,
    method_name,
    names_in,
    nodes_in,
    parted,
    receiver,
    unquoted,
    wholes_of,
)
from retrofit.survey.order import runs_always
from retrofit.survey.parameters import default_of
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.filling import EMPTIES, FILLS
from retrofit.survey.scores.inheriting import leads_as, method_run, object_class
from retrofit.survey.scores.makers import reaching_makers
from retrofit.survey.scores.values import code_within, numbers_turns, phases_asked, phases_of, written, written_items
from retrofit.survey.scores.words import VALIDATION_DATA
from retrofit.survey.sites.loop import EpochLoop

EVALUATED, TRAINED = "evaluated", "trained"
#: Of a block without gradients that is a part of what is around it.
_ASIDE = "aside"

#: So many calls are followed one within the other, and so many items taken out one of the other.
_DEEP = 6


@dataclass(frozen=True, eq=False)
class _Frame:
    """A function as one call runs it, or the epoch loop.

    Attributes:
        given: the parameters of which the call tells the value, or `SOMETHING` where it tells that there is one.
        call: the call, None for the epoch loop.
        outer: what the call stands in.
        kind: the class of the object whose method it is, None where it is none or may be of several.
    """

    scope: Scope
    given: Mapping[str, object] = field(default_factory=dict)
    call: cst.Call | None = None
    outer: _Frame | None = None
    kind: Scope | None = None

    @property
    def depth(self) -> int:
        return 0 if self.outer is None else self.outer.depth + 1


class Making:
    """Tells of values of an epoch loop whether an evaluation makes them or the training.

    An evaluation is what runs without gradients, after the model was told to evaluate, or in a function without a
    backward pass; the training what runs in a loop with one. Values are followed back through assignments, collections,
    arguments and what local functions return to the statements that tell.

    Args:
        loop: the epoch loop.
    """

    def __init__(self, index: Index, flow: Flow, loop: EpochLoop) -> None:
        self._index, self._flow, self._loop = index, flow, loop
        self._running = called_in(index, flow, loop.statement)
        self._seen: set[tuple[object, ...]] = set()
        self._read: set[tuple[str, Statement]] = set()
        self._modes: dict[Scope, list[tuple[Statement, str]]] = {}
        self._validating: dict[Scope, bool] = {}
        self._trained: dict[cst.Call, set[str]] = {}
        self._filled: dict[tuple[Scope, str], list[cst.Call]] = {}
        self._named: dict[Scope, defaultdict[str, list[cst.Call]]] = {}
        simple = (cst.SimpleStatementLine, cst.SimpleStatementSuite)
        #: The backward passes, and the calls that lead to one.
        self._steps = [one for one in loop.training if isinstance(one.node, simple)]
        #: What the backward passes are of, each with its statement.
        self._losses = [
            ({*names_in(held)}, index.statement(call))
            for call, held in index.method_calls("backward")
            if index.statement(call) in loop.training
        ]
        self._bound: dict[str, list[Binding]] = {}
        for binding in (*index.bindings, *index.items):
            self._bound.setdefault(unquoted(binding.target), []).append(binding)
        #: Items by keys that only the run knows, `results[name]`, of each collection.
        self._at_some_key: dict[str, set[str]] = {}
        for target in self._bound:
            holder, keys = parted(target)
            if keys and not keys[0].startswith("'") and not keys[0].isdecimal():
                self._at_some_key.setdefault(holder, set()).add(target)
        #: What a function tells by a condition: `is_train = optimizer is not None`.
        self._flags: dict[Scope, list[Binding]] = {}
        conditions = (cst.Comparison, cst.UnaryOperation, cst.BooleanOperation, cst.Name)
        for binding in index.bindings:
            if isinstance(binding.value, conditions) and binding.item is None:
                self._flags.setdefault(binding.statement.scope, []).append(binding)

    def of(self, node: cst.BaseExpression, call: cst.Call | None = None) -> str:
        """Tell what makes a value.

        Args:
            node: its expression, in the epoch loop, or in a function; one that stands in no file counts as at the
                loop's end.
            call: the loop's call of that function, None where the expression is the loop's own.

        Returns:
            `EVALUATED` where an evaluation has a part in it, else `TRAINED` where the training makes it, "" where
            nothing tells.
        """
        self._seen.clear()
        self._read.clear()
        at = self._index.statement(node) if node in self._index.parents else self._end
        frame = _Frame(at.scope, self._phases(at, node))
        if call is not None and at.scope is not self._loop.scope and self._flow.called(call) is at.scope:
            outer = _Frame(self._loop.scope, self._phases(self._index.statement(call), call))
            called = self._called(at.scope, call, outer)
            frame = replace(called, given={**called.given, **self._phases(at, node)})
        own = [b for b in self._bound.get(unquoted(written(self._index, node)), []) if b.statement is at]
        own = own if is_bound(self._index, node) else []
        return _kind({kind for b in own for kind in self._of_binding(b, frame, ())} or self._of(node, at, frame))

    @cached_property
    def _end(self) -> Statement:
        """Where a turn of the epoch loop is over, behind all that its last statement holds."""
        last = self._index.statements_in(self._loop.body)[-1]
        return replace(last, index=last.index + 1, order=max(last.order, last.last))

    def given_by(self, statement: Statement, name: str) -> str:
        """Tell what makes what a statement gives to a variable, as `of` does, in a function for any call of it."""
        self._seen.clear()
        frame = self._frame(statement)
        own = [b for b in self._bound.get(name, []) if b.statement is statement]
        return _kind({kind for b in own for kind in self._of_binding(b, frame, ())})

    def made_at(self, node: cst.BaseExpression, at: Statement) -> str:
        """Tell what makes the value that an expression has in a statement, as `given_by` does."""
        self._seen.clear()
        return _kind(self._of(node, at, self._frame(at)))

    def rules_training_out(self, call: cst.Call) -> bool:
        """Whether what a call gives, `run_epoch(loader, train=False)`, keeps a function from its backward passes."""
        function = self._flow.called(call)
        frame = self._frame(self._index.statement(call))
        return function is not None and self._trains(self._called(function, call, frame)) == EVALUATED

    def around(self, at: Statement) -> str:
        """Tell what the place of a statement says of what it makes, as `of` does."""
        return _kind(self._around(at, self._frame(at)))

    def _frame(self, at: Statement) -> _Frame:
        return _Frame(at.scope, self._phases(at))

    def read_for(self, node: cst.BaseExpression, call: cst.Call | None = None) -> set[tuple[str, Statement]]:
        """Return the variables and items out of which a value is made, each with a statement that reads it for that.

        Args:
            node: its expression, and
            call: the call, as for `of`.
        """
        self.of(node, call)
        return set(self._read)

    def _phases(self, at: Statement, node: cst.CSTNode | None = None) -> dict[str, object]:
        """Return what the variable of a loop over phases is at a statement: the last one that it can be there.

        In what order others come than those that are written out is not known: there it is one of those that it can
        be at ``node`` in the statement, where these all train or none does.
        """
        found: dict[str, object] = {}
        for part in self._index.loops:
            inside = part.scope is at.scope and (at.scope is not self._loop.scope or self._loop.statement in part.path)
            name, values = (phases_of(self._index, part.node) if inside else None) or ("", [])
            for phase in values:
                given = self._with_flags(part.scope, {name: phase})
                if part not in at.path or self._may_run(at, _Frame(part.scope, given)):
                    found |= given
            asked = phases_asked(self._index, part.node) if inside and part in at.path[:-1] else None
            if asked is not None:
                frames = [_Frame(at.scope, self._with_flags(at.scope, {asked[0]: phase})) for phase in asked[1]]
                left = left_before(at)
                frames = [one for one in frames if not any(holds_with(early.test, one.given) for early in left)]
                frames = [one for one in frames if self._may_run(at, one, node)]
                if len({self._trains(one, part) for one in frames}) == 1:
                    found |= frames[-1].given
        return found

    def _of(self, node: cst.CSTNode, at: Statement, frame: _Frame, keys: tuple[str, ...] = ()) -> set[str]:
        """Return what makes the value of an expression, or of the item of it that ``keys`` take out."""
        name = dotted(node)
        if name is not None:
            walked = self._walked(node, name.partition(".")[0])
            if walked is not None:
                return self._of_parts_gone_through(walked, at, frame)
            return self._of_name(name, at, frame, keys)
        if isinstance(node, cst.Call):
            return self._of_call(node, at, frame, keys)
        if isinstance(node, cst.Subscript) and len(node.slice) == 1:
            key = node.slice[0].slice
            made = self._of(node.value, at, frame, keys if isinstance(key, cst.Slice) else (self._code(key), *keys))
            # Of what one pass gives for all data, as of a graph, the training learns from some.
            held_out = self._loop.by_iteration and key_of(node) is None and VALIDATION_DATA.search(self._code(key))
            return {EVALUATED} if held_out and made == {TRAINED} else made
        if isinstance(node, cst.NamedExpr):
            return self._of(node.value, at, frame, keys)
        if keys and isinstance(node, (cst.Dict, cst.Tuple, cst.List)) and node in self._index.parents:
            items = [part for key, part in written_items(self._index, node) if unquoted(key) == keys[0]]
            if len(items) == 1:
                return self._of(items[0], at, frame, keys[1:])
        if isinstance(node, (cst.Lambda, cst.BaseString)):
            return set()
        return self._all(children(node), at, frame)

    def _walked(self, node: cst.CSTNode, name: str) -> cst.BaseExpression | None:
        """Return what a comprehension around an expression goes through by a name, None where none has it."""
        below = node
        for part in self._index.ancestors(node):
            if isinstance(part, cst.BaseStatement):
                return None
            if isinstance(part, cst.BaseComp) and below is not part.for_in:
                inner: cst.CompFor | None = part.for_in
                while inner is not None:
                    if name in names_in(inner.target):
                        return inner.iter
                    inner = inner.inner_for_in
            below = part
        return None

    def _all(self, nodes: object, at: Statement, frame: _Frame) -> set[str]:
        assert isinstance(nodes, (list, tuple))
        return {kind for node in nodes for kind in self._of(node, at, frame)}

    def _code(self, node: cst.CSTNode) -> str:
        return unquoted(written(self._index, node))

    def _of_name(self, name: str, at: Statement, frame: _Frame, keys: tuple[str, ...]) -> set[str]:
        keys = keys[:_DEEP]  # `node = node["next"]` in a loop takes out ever more
        if (name, at, frame.call, keys) in self._seen:
            return set()
        self._seen.add((name, at, frame.call, keys))
        self._read.add((name + "".join(f"[{key}]" for key in keys), at))
        for end in range(len(keys), 0, -1):
            items = self._given(name + "".join(f"[{key}]" for key in keys[:end]), at, frame)
            if items:
                return {kind for one in items for kind in self._of_binding(one, frame, keys[end:])}
        found = self._passed(name, at, frame, keys)
        for target in self._at_some_key.get(name, ()) if keys else ():
            found |= {kind for one in self._given(target, at, frame) for kind in self._of_binding(one, frame, keys[1:])}
        for whole in wholes_of(name):
            for binding in self._given(whole, at, frame):
                found |= self._of_binding(binding, frame, keys if whole == name else ())
            found |= self._of_parts(whole, at, frame, keys if whole == name else ())
        return found

    def _given(self, target: str, at: Statement, frame: _Frame) -> list[Binding]:
        """Return what gives a variable or an item the value that it has before a statement."""
        every = [b for b in self._bound.get(target, []) if b.statement is not at]
        here = [b for b in every if b.statement.scope is frame.scope and self._inside(b.statement, frame)]
        if not target.startswith("self."):
            reaching = reaching_makers(at, [b.statement for b in here])[0]
            here = [b for b in here if b.statement in reaching]
        here = [b for b in here if self._may_run(b.statement, frame)] or here  # else an earlier turn's
        if here or target.partition("[")[0] in frame.scope.parameters:
            return here
        variable = self._flow.variable(target.partition("[")[0], frame.scope)
        others = [b for b in every if b.statement.scope is not frame.scope and b.statement.scope in self._running]
        return [b for b in others if self._flow.variable(b.target.partition("[")[0], b.statement.scope) == variable]

    def _inside(self, statement: Statement, frame: _Frame) -> bool:
        return frame.scope is not self._loop.scope or self._loop.statement in statement.path

    def _of_binding(self, binding: Binding, frame: _Frame, keys: tuple[str, ...]) -> set[str]:
        at = binding.statement
        frame = frame if at.scope is frame.scope else _Frame(at.scope)
        frame = replace(frame, given={**self._phases(at), **frame.given})
        if self._is_loss(binding):
            return {TRAINED}
        if isinstance(at.node, cst.For) and binding.value is None:
            return self._of_parts_gone_through(at.node.iter, at, frame)
        if binding.value is not None:
            picked = keys if binding.item is None else (str(binding.item), *keys)
            return self._of(binding.value, at, frame, picked)
        changed = changes(binding)
        if not changed or numbers_turns(self._loop, binding) or ("added", at, binding.target, frame.call) in self._seen:
            return set()
        self._seen.add(("added", at, binding.target, frame.call))
        added = {kind for small in changed for kind in self._of(small.value, at, frame)} or self._around(at, frame)
        so_far = {
            kind for b in self._given(unquoted(binding.target), at, frame) for kind in self._of_binding(b, frame, keys)
        }
        return added | so_far

    def _is_loss(self, binding: Binding) -> bool:
        """Whether a backward pass of what a statement makes always follows, whatever has gone into that."""
        here = binding.statement
        around = [part for part in here.ancestors if isinstance(part.node, (cst.For, cst.While))]
        passes = {step.node for _, step in self._losses}  # of which each branch of a choice may have one
        steps = [
            step
            for names, step in self._losses
            if binding.target in names and step.scope is here.scope and step.order > here.order
            if set(around[:1]) <= set(step.path)
            if all(
                part in here.path or runs_always(part.node, passes, leaves=False)
                for part in step.path
                if isinstance(part.node, cst.If)
            )
        ]
        made = [b.statement for b in self._bound[unquoted(binding.target)] if b.statement.scope is here.scope]
        return any(here in reaching_makers(step, made)[0] for step in steps)

    def _of_parts_gone_through(self, node: cst.BaseExpression, at: Statement, frame: _Frame) -> set[str]:
        """Return what makes what a loop goes through: nothing that tells where that is data."""
        if isinstance(node, cst.Call):
            return {kind for arg in node.args for kind in self._of_parts_gone_through(arg.value, at, frame)}
        name = dotted(node)
        given = self._given(name, at, frame) if name is not None else []
        values = [b.value for b in given if isinstance(b.value, cst.Call) and not self._flow.called(b.value)]
        if values and len(values) == len(given):  # `bar = tqdm(loader)`
            parts = [self._of_parts_gone_through(one, self._index.statement(one), frame) for one in values]
            return {kind for found in parts for kind in found}
        return self._of(node, at, frame) if name is not None else set()

    def _of_parts(self, name: str, at: Statement, frame: _Frame, keys: tuple[str, ...]) -> set[str]:
        """Return what makes the values that an object or a collection is filled with: `losses.append(loss)`."""
        calls = self._fillings(frame.scope, name)
        others = {id(c) for c in calls if keys and (key := self._key_of(c, name)) and key != keys[0]}
        calls = [c for c in calls if id(c) not in others]
        places = [s for c in calls if self._inside(s := self._index.statement(c), frame)]
        emptied = [
            self._index.statement(call)
            for call in self._calls_with(frame.scope)[name]
            if method_name(call) in EMPTIES and dotted(receiver(call)) == name
        ]
        begun = [b.statement for b in self._bound.get(name, []) if b.statement.scope is frame.scope]
        reaching = reaching_makers(at, [*places, *emptied, *begun])[0]
        found: set[str] = set()
        for call in calls:
            place = self._index.statement(call)
            last = max((s.order for s in (*emptied, *begun) if s in reaching), default=-1)
            if place in places and place.order >= last and place.order <= at.order:
                within = self._flow.called(call)
                made = self._all([arg.value for arg in call.args], place, frame)
                # A meter's own method makes nothing of what it takes in, but for one that runs a model.
                makes = within is not None and (method_name(call) not in FILLS or self._goes_through(within))
                if not made and within is not None and makes and frame.depth < _DEEP:
                    made = self._of_function(within, call, frame)
                found |= made or self._around(place, frame)
        return found

    def _fillings(self, scope: Scope, name: str) -> list[cst.Call]:
        """Return a function's calls that put something into an object of it."""
        key = (scope, name)
        if key not in self._filled:
            self._filled[key] = []  # a function that calls itself with the object is no filling by that
            self._filled[key] = [call for call in self._calls_with(scope)[name] if self._fills(call, name)]
        return self._filled[key]

    def _calls_with(self, scope: Scope) -> defaultdict[str, list[cst.Call]]:
        """Return a function's calls by the names in what is called and of their arguments."""
        if scope not in self._named:
            named = self._named[scope] = defaultdict(list)
            for call in self._index.calls_of(scope):
                parts: set[str | None] = {dotted(arg.value) for arg in call.args}
                held: cst.CSTNode = call.func
                while isinstance(held, (cst.Subscript, cst.Attribute)):
                    parts.add(dotted(held))
                    held = held.value
                for name in filter(None, parts | {dotted(held)}):
                    named[name].append(call)
        return self._named[scope]

    def _fills(self, call: cst.Call, name: str) -> bool:
        """Whether a call puts something into an object: by a method, by itself, or a function that it is given to."""
        if dotted(call.func) == name:
            return isinstance(self._index.parents[call], cst.Expr)
        held = receiver(call) if method_name(call) in FILLS else None
        if held is not None:
            while isinstance(held, (cst.Subscript, cst.Attribute)) and dotted(held) != name:
                held = held.value
            return dotted(held) == name
        alone = isinstance(self._index.parents[call], cst.Expr) and self._flow.called(call) is not None
        return alone and any(dotted(arg.value) == name for arg in call.args) and self._is_filled_elsewhere(call, name)

    def _key_of(self, call: cst.Call, name: str) -> str:
        """Return the code of the key of a collection's item whose method is called, "" where there is none."""
        held: cst.CSTNode = call.func
        while isinstance(held, (cst.Attribute, cst.Subscript)):
            if isinstance(held, cst.Subscript) and dotted(held.value) == name:
                return self._code(held.slice[0].slice)
            held = held.value
        return ""

    def _is_filled_elsewhere(self, call: cst.Call, name: str) -> bool:
        """Whether a function fills the object that it is given."""
        function = self._flow.called(call)
        assert function is not None
        own = [
            p
            for p in function.parameters
            if (arg := argument_of(function, call, p)) is not None and dotted(arg) == name
        ]
        return any(dotted(c.func) != one for one in own for c in self._fillings(function, one))

    def _passed(self, name: str, at: Statement, frame: _Frame, keys: tuple[str, ...]) -> set[str]:
        """Return what makes the value that a call gives to a parameter."""
        call, outer, root = frame.call, frame.outer, name.partition(".")[0]
        if call is None or outer is None or root not in frame.scope.parameters:
            return set()
        value = argument_of(frame.scope, call, root)
        return self._of(value, self._index.statement(call), outer, keys if root == name else ()) if value else set()

    def _of_call(self, call: cst.Call, at: Statement, frame: _Frame, keys: tuple[str, ...]) -> set[str]:
        function = method_run(self._flow, call, frame.kind) if call in self._index.parents else None
        holder = [held] if (held := receiver(call)) is not None else []
        if function is not None and function.name != "__init__" and frame.depth < _DEEP:
            # What an object tells by a method is made by what it was filled with, whatever the method does.
            owner = holder if function.holder is not None else []
            return self._all(owner, at, frame) or self._of_function(function, call, frame, keys)
        found = self._all([*holder, *(arg.value for arg in call.args)], at, frame)
        if found:
            return found
        if VALIDATES.search(last_name(call.func)) and call.args:
            return {EVALUATED}
        return self._around(at, frame) or ({TRAINED} if self._is_learnt(call, at, frame) else set())

    def _is_learnt(self, call: cst.Call, at: Statement, frame: _Frame) -> bool:
        """Whether a call of an object, such as the model, makes what a backward pass in its function is of.

        It tells where an epoch is one step; what a function gives there, or a method of other objects, may be its data.
        """
        name, told = dotted(call.func) or "", self._index.calls_of(at.scope)
        called = wholes_of(name) or [name]  # of `self(x)` no part
        models = {dotted(receiver(one)) for one in told if mode_told(self._index, one)}
        objects = called[-1] in self._bound or called[-1] in frame.scope.parameters or models.intersection(called)
        if not objects or self._trains(frame) != TRAINED:
            return False
        steps = [step for _, step in self._losses if step.scope is at.scope]
        return any(at is made for step in steps for made, _ in self._makers(step.node, step, frame))

    def _of_function(self, function: Scope, call: cst.Call, frame: _Frame, keys: tuple[str, ...] = ()) -> set[str]:
        """Return what makes the value that a call of a local function gives."""
        inner = self._called(function, call, frame)
        key = ("returns", function, call, keys)
        if key in self._seen:
            return set()
        self._seen.add(key)
        found: set[str] = set()
        for leaving, scope in self._index.returns:
            if scope is function and leaving.value is not None and self._may_run(self._index.statement(leaving), inner):
                found |= self._of(leaving.value, self._index.statement(leaving), inner, keys)
        if found:
            return found
        if self._trains(inner):
            return set()
        passes = any(part.scope is function for part in self._index.loops)
        passes = passes or any(isinstance(one, cst.BaseComp) for one in nodes_in(function.node))
        return (
            {EVALUATED}
            if passes or VALIDATES.search(function.name)
            else self._around(self._index.statement(call), frame)
        )

    def _called(self, function: Scope, call: cst.Call, frame: _Frame) -> _Frame:
        given: dict[str, object] = {}
        for name in function.parameters:
            value = argument_of(function, call, name)
            default = default_of(function, name) if value is None else None
            known = constant(value if value is not None else default)
            if value is not None and known is SOMETHING:
                known = self._constant_at(call, dotted(value) or "", frame)
            if value is not None or default is not None:
                given[name] = known
        kind = object_class(self._flow, function, call, frame.kind)
        return _Frame(function, self._with_flags(function, given), call, frame, kind)

    def _constant_at(self, call: cst.Call, name: str, frame: _Frame) -> object:
        """Return what a variable is where a call stands, `SOMETHING` where that is not told.

        What nothing in the epoch loop surely gives a value may have that from before it.
        """
        if name in frame.given:
            return frame.given[name]
        if call not in self._index.parents:
            return SOMETHING
        given, shared = self._given(name, at := self._index.statement(call), frame), self._index.guards(at.node)
        guards = [[one for one in self._index.guards(b.statement.node) if one not in shared] for b in given]
        if not any(all(holds_with(test, frame.given) is holds for test, holds in some) for some in guards):
            own = name not in frame.scope.parameters  # which a caller that is not seen may give
            given = [b for b in self._bound.get(name, []) if own and b.statement.scope is frame.scope]
        found = {SOMETHING if b.value is None or b.item is not None else constant(b.value) for b in given}
        return found.pop() if len(found) == 1 else SOMETHING

    def _with_flags(self, scope: Scope, given: Mapping[str, object]) -> dict[str, object]:
        """Return what is known of names, and of a function's conditions on them: `fits = mode == "fit"`."""
        known = dict(given)
        for flag in self._flags.get(scope, ()):
            told = flag.value is not None and not known.keys().isdisjoint(names_in(flag.value))
            if told and flag.value is not None and flag.target not in known:
                holds = holds_with(flag.value, known)
                known[flag.target] = SOMETHING if holds is None else holds
        return known

    def _around(self, at: Statement, frame: _Frame) -> set[str]:
        """Return what the place of a statement tells: what is around it, or was begun before it."""
        begun = self._begun(at, frame)
        beside = [one for one in begun if one[1] != _ASIDE]
        told = max(begun)[1] if begun else ""
        if told == _ASIDE:
            around = {max(beside)[1]} if beside else self._around_call(frame)
            return around if around == {TRAINED} else {EVALUATED}
        if told == "undecided" and frame.outer is not None and frame.call is not None:
            return self._mode_around(self._index.statement(frame.call), frame.outer)
        if told:
            return {told} & {EVALUATED, TRAINED}
        if without_gradients(self._index, frame.scope.node):
            return self._around_call(frame) if self._measures_learnt(frame) else {EVALUATED}
        if frame.scope is self._loop.scope:
            return set()
        trains = self._trains(frame)
        if trains == TRAINED and not any(part.scope is frame.scope for part in self._index.loops):
            return {TRAINED}
        if trains or frame.scope.kind != "function":
            return self._around_call(frame)
        if frame.scope not in self._validating:
            self._validating[frame.scope] = self._validates(frame.scope)
        return {EVALUATED} if self._validating[frame.scope] else self._around_call(frame)

    def _validates(self, function: Scope) -> bool:
        """Whether a function evaluates the model for one batch after the other, by itself or by others.

        What it makes of nothing that is seen is of that: what it reads from files that the evaluation has written.
        """
        running = [function, *called_in(self._index, self._flow, self._index.statement(function.node))]
        told = [one for one in running if any(mode == "eval" for _, mode in self._modes_of(one))]
        return any(map(self._goes_through, told))

    def _around_call(self, frame: _Frame) -> set[str]:
        """Return what the place of the call tells that runs a function."""
        if frame.outer is None or frame.call is None:
            return set()
        return self._around(self._index.statement(frame.call), frame.outer)

    def _begun(self, at: Statement, frame: _Frame) -> list[tuple[int, str]]:
        """Return what was begun before a statement, or is around it, each with where that stands."""
        begun: list[tuple[int, str]] = []
        way = [part for part in at.path if part.scope is frame.scope and self._inside(part, frame)]
        for part in way:
            if without_gradients(self._index, part.node):
                apart = not self._measures_learnt(frame) and self._runs_through(part, frame)
                begun.append((part.order, EVALUATED if apart else _ASIDE))
            if isinstance(part.node, (cst.For, cst.While)) and (
                part is not self._loop.statement or self._loop.by_step or self._loop.unclear
            ):
                trains = self._trains(frame, part)
                if trains:
                    begun.append((part.order, trains))
                elif isinstance(part.node, cst.For) and VALIDATION_DATA.search(self._code(part.node.iter)):
                    begun.append((part.order, EVALUATED))
        for place, mode in self._modes_of(frame.scope):
            if any(place.siblings is part.siblings and place.order < part.order for part in way):
                learnt = self._learnt_in(place, frame) if mode == "eval" else set()
                if mode == "eval" and self._measures_learnt(frame):
                    continue
                if learnt.isdisjoint(self._makers(at.node, at, frame) if learnt else ()):
                    begun.append((place.order, EVALUATED if mode == "eval" else mode))
        return begun

    def _runs_through(self, block: Statement, frame: _Frame) -> bool:
        """Whether a block without gradients runs what the training runs, or goes through data of its own.

        One that does neither is a part of a step: a teacher's targets, or how many hits a batch of the training has,
        whatever runs that batch for it.
        """
        calls = dict.fromkeys(self._index.calls_in(block))
        scopes = {block.scope, *(one.scope for one in self._steps)}
        others = [call for scope in scopes for call in self._index.calls_of(scope) if call not in calls]
        turns = [part for part in block.around if isinstance(part.node, (cst.For, cst.While))]
        inner = [*takewhile(lambda turn: not self._trains(frame, turn), turns)]
        same = set(filter(None, map(_called_object, others)))
        again = [call for call in calls if _called_object(call) in same]
        learnt = self._learnt_in(block, frame) if again else set()
        if any(learnt.isdisjoint(self._makers(call, self._index.statement(call), frame)) for call in again):
            return True
        if any(self._goes_through(function) for call in calls if (function := self._flow.called(call)) is not None):
            return True
        made = {b.target for turn in turns[len(inner) : len(inner) + 1] for b in self._index.bound_in(turn)}
        made |= self._given_trained(block, frame)
        loops = [*(turn.node for turn in inner), *nodes_in(block.node)]
        return any(isinstance(one, cst.For) and not mentions(one.iter, made) for one in loops)

    def _learnt_in(self, at: Statement, frame: _Frame) -> set[tuple[Statement, str]]:
        """Return what makes that which is learnt of a batch in the turn around a statement; an epoch is no batch."""
        loops = (cst.For, cst.While)
        turn = next((part for part in at.around if isinstance(part.node, loops)), None)
        found: set[tuple[Statement, str]] = set()
        if turn is None or (turn is self._loop.statement and not self._loop.by_step):
            return found
        for step in self._learning:
            around = (part for part in step.around if isinstance(part.node, loops))
            if step.scope is frame.scope and next(around, None) is turn:
                found |= self._makers(step.node, step, frame)
        return {one for one in found if turn in one[0].path and one[0] is not self._loop.statement}

    @cached_property
    def _learning(self) -> list[Statement]:
        """The backward passes, and the calls of what takes a single step with a batch that it is given."""
        looped = {part.scope for part in self._index.loops if part in self._loop.training}
        runs = [(one, called_in(self._index, self._flow, one)) for one in self._steps]
        return [*(step for _, step in self._losses), *(one for one, run in runs if run and looped.isdisjoint(run))]

    def _measures_learnt(self, frame: _Frame) -> bool:
        """Whether a function measures what is learnt of in the turn of a loop that calls it, no other part of it."""
        if frame.call is None or frame.outer is None:
            return False
        here = self._index.statement(frame.call)
        learnt = self._learnt_in(here, frame.outer)
        return not (learnt.isdisjoint(self._makers(frame.call, here, frame.outer)) or self._holds_out(frame, learnt))

    def _holds_out(self, frame: _Frame, learnt: set[tuple[Statement, str]]) -> bool:
        """Whether a function runs the model once more for a part of the data of which the training learns another.

        So it is where all are run at once, as those of a graph are: `out[train_mask]`, and `out[val_mask]` in there.
        """
        runs = self._models_run(frame.scope) or self._modes_of(frame.scope)
        if frame.call is None or frame.outer is None or not runs:
            return False
        around = self._index.statement(frame.call).path
        steps = [one for one in self._learning if one.scope is frame.outer.scope]
        blocks = {one for one in (*(one for one, _ in learnt), *steps) if one not in around}
        inside = called_in(self._index, self._flow, *blocks)
        nodes = [*(one.node for one in blocks), *(one.node for one in inside)]
        parts = {part for node in nodes for part in self._parts_in(node, {})}
        given = {name: argument_of(frame.scope, frame.call, name) for name in frame.scope.parameters}
        learnt_of = {data for data, _ in parts}
        return any(data in learnt_of for data, _ in self._parts_in(frame.scope.node, given) - parts)

    def _parts_in(self, node: cst.CSTNode, given: Mapping[str, cst.BaseExpression | None]) -> set[tuple[str, str]]:
        """Return what parts of data are taken in a node, by the last names of the data and of their mask."""
        found = set[tuple[str, str]]()
        for one in nodes_in(node, cst.Annotation):
            key = one.slice[0].slice if isinstance(one, cst.Subscript) and len(one.slice) == 1 else None
            if isinstance(one, cst.Subscript) and isinstance(key, cst.Index):
                named = [given.get(dotted(part) or "") or part for part in (one.value, key.value)]
                if all(map(last_name, named)):
                    found.add((last_name(named[0]), last_name(named[1])))
        return found

    def _makers(self, node: cst.CSTNode, at: Statement, frame: _Frame) -> set[tuple[Statement, str]]:
        """Return the statements of a function that make, one out of the other, what an expression in it reads.

        Each with the name that it makes, but for the number of a turn, by which data of any kind is taken.
        """
        found, waiting = set[tuple[Statement, str]](), [(name, at) for name in names_in(node)]
        while waiting:
            name, place = waiting.pop()
            for made in (b for whole in wholes_of(name) for b in self._given(whole, place, frame)):
                here = made.statement
                if here.scope is frame.scope and (here, made.target) not in found and not is_turns_number(made):
                    found.add((here, made.target))
                    values = [made.value] if made.value is not None else [*changes(made)]
                    values = [] if here in self._steps else values  # what a step gives has learnt, and is of no batch
                    waiting += [(name, here) for value in values for name in names_in(value)]
        return found

    def _given_trained(self, at: Statement, frame: _Frame) -> set[str]:
        """Return the parameters for which a call gives what the training makes, such as losses to be reduced."""
        if frame.call is None:
            return set()
        if frame.call not in self._trained:
            self._trained[frame.call] = set()  # what is asked for again on the way is none
            seen, self._seen = self._seen, set()
            passed = {name: self._passed(name, at, frame, ()) for name in frame.scope.parameters}
            self._trained[frame.call] = {name for name, kinds in passed.items() if kinds == {TRAINED}}
            self._seen = seen
        return self._trained[frame.call]

    def _goes_through(self, function: Scope) -> bool:
        """Whether a function runs a model that it is given, or has, for one batch after the other."""
        runs = map(self._index.statement, self._models_run(function))
        return any(isinstance(part.node, (cst.For, cst.While)) for here in runs for part in here.around)

    def _models_run(self, function: Scope) -> list[cst.Call]:
        """Return where a function runs a model that it is given, or has."""
        return [
            call
            for call in self._index.calls_of(function)
            if dotted(call.func) in function.parameters
            or (_called_object(call).startswith("self.") and self._flow.called(call) is None)
        ]

    def _mode_around(self, at: Statement, frame: _Frame) -> set[str]:
        """Return what the model was told last before a statement: to train or to evaluate."""
        way = [part for part in at.path if part.scope is frame.scope and self._inside(part, frame)]
        begun = [
            (place.order, mode)
            for place, mode in self._modes_of(frame.scope)
            if any(place.siblings is part.siblings and place.order < part.order for part in way)
        ]
        told = max(begun)[1] if begun else ""
        return {EVALUATED} if told == "eval" else {TRAINED} if told == "train" else set()

    def _modes_of(self, scope: Scope) -> list[tuple[Statement, str]]:
        """Return where a function tells the model to train or to evaluate, with "train" or "eval"."""
        if scope not in self._modes:
            told = [(call, mode_told(self._index, call)) for call in self._index.calls_of(scope)]
            self._modes[scope] = [(self._index.statement(call), mode) for call, mode in told if mode]
        return self._modes[scope]

    def _trains(self, frame: _Frame, within: Statement | None = None) -> str:
        """Tell whether a function, or a statement in it, has a backward pass as a call runs it.

        Returns:
            `TRAINED`, "" where it has none, `EVALUATED` where the call rules it out, "undecided" where it depends on
            what the call gives and that is not told.
        """
        steps = [one for one in self._steps if one.scope is frame.scope and (within is None or within in one.path)]
        steps = [one for one in steps if leads_as(self._flow, one, frame.kind, self._steps)]
        if not steps:
            return ""
        told = {self._runs(one, frame, steps) for one in steps}
        return TRAINED if True in told else "undecided" if None in told else EVALUATED

    def _runs(self, step: Statement, frame: _Frame, steps: list[Statement]) -> bool | None:
        """Tell whether a call runs a backward pass, None where it depends on what is not told."""
        answers: list[bool | None] = [False] if self._is_called_without(step, frame) else []
        below = step
        for part in step.around:
            node = part.node
            if isinstance(node, cst.If):
                yes = code_within(self._index, below.node, node.body)
                either = node.orelse is not None and any(
                    part in one.path and code_within(self._index, one.node, node.body) is not yes for one in steps
                )
                holds = None if either else holds_with(node.test, frame.given)
                names = list(names_in(node.test))
                depends = any(one.partition(".")[0] in frame.given or one.endswith(".training") for one in names)
                if holds is not None:
                    answers.append(holds is yes)
                elif depends and not either and self._loop.scope is not frame.scope:
                    answers.append(None)
            below = part
        return False if False in answers else None if None in answers else True

    def _is_called_without(self, step: Statement, frame: _Frame) -> bool:
        """Whether a statement calls what has a backward pass, and each of its calls rules that out."""
        if frame.depth >= _DEEP or any(step is one for _, one in self._losses):
            return False
        calls = [
            (call, function)
            for call in self._index.calls_in(step)
            if (function := method_run(self._flow, call, frame.kind))
        ]
        told = {self._trains(self._called(function, call, frame)) for call, function in calls} - {""}
        return told == {EVALUATED}

    def _may_run(self, statement: Statement, frame: _Frame, node: cst.CSTNode | None = None) -> bool:
        guards = self._index.guards(node if node in self._index.parents else statement.node)
        return all(holds_with(test, frame.given) in (None, holds) for test, holds in guards)


def _kind(found: set[str]) -> str:
    return EVALUATED if EVALUATED in found else TRAINED if TRAINED in found else ""


def is_bound(index: Index, node: cst.BaseExpression) -> bool:
    """Whether a name is given its value where it stands."""
    parent = index.parents.get(node)
    return isinstance(parent, (cst.AssignTarget, cst.Element)) or getattr(parent, "target", None) is node


def is_turns_number(binding: Binding) -> bool:
    """Whether a name is the number of a `for` loop's turn: `i` in `for i, batch in enumerate(loader)`, `i += 1`."""
    node = binding.statement.node
    if any(isinstance(one.value, cst.Integer) for one in changes(binding)):
        return True
    if not isinstance(node, cst.For) or not isinstance(node.iter, cst.Call):
        return False
    first = node.target.elements[0].value if isinstance(node.target, cst.Tuple) else node.target
    by = dotted(node.iter.func)
    return by == "range" or (by == "enumerate" and dotted(first) == binding.target)


def _called_object(call: cst.Call) -> str:
    """Return the name of a variable or an attribute that is called, "" for a method of a tensor or a type."""
    name = dotted(call.func) or ""
    return name if ("." not in name and not hasattr(builtins, name)) or name.startswith("self.") else ""


def is_validation(index: Index, function: Scope) -> bool:
    """Whether a function validates, as its name says, or as it runs without gradients and has no backward pass."""
    if VALIDATES.search(function.name) is not None:
        return True
    at = index.statement(function.node)
    inside = range(at.order, at.last + 1)
    trains = any(index.statement(call).order in inside for call, _ in index.method_calls("backward"))
    return not trains and any(without_gradients(index, part.node) for part in index.statements if part.order in inside)


def without_gradients(index: Index, node: cst.CSTNode) -> bool:
    """Whether a statement is `with torch.no_grad():`, or a function with `@torch.no_grad()` on it."""
    marks = node.items if isinstance(node, cst.With) else node.decorators if isinstance(node, cst.FunctionDef) else ()
    return any(_switches_off(index, mark) for mark in marks)


def _switches_off(index: Index, node: cst.WithItem | cst.Decorator) -> bool:
    made = node.item if isinstance(node, cst.WithItem) else node.decorator
    name = last_name(made.func if isinstance(made, cst.Call) else made)
    off = isinstance(made, cst.Call) and [index.source.code(arg.value) for arg in made.args] == ["False"]
    return name in ("no_grad", "inference_mode") or (name == "set_grad_enabled" and off)
