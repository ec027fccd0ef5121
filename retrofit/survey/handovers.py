"""Find where a script hands its score over by hand, and what it does with the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from retrofit.survey.blocks import Kind, Reading, Signs, find_blocks, find_earlier_flags, named, names_read
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import EXITS, argument, dotted, last_of, method_name, names_in, receiver
from retrofit.survey.ranks import condition, ranks_at
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.block import Block
from retrofit.survey.sites.loop import Backward, EpochLoop
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.wrappers import wrapper_kind


def find_own_blocks(
    index: Index, flow: Flow, signs: Signs, loops: list[EpochLoop], wrappers: list[Wrapper], restarts: bool
) -> list[Block]:
    """Return what a script has in the place of what the recipe writes; where its option has an earlier name, only that.

    Args:
        signs: what tells it.
        loops: the epoch loops.
        wrappers: where the model is wrapped.
        restarts: whether a process ends when the model is restructured, so that hand-overs are replaced.
    """
    flags = find_earlier_flags(index, signs) if wrappers else []
    if flags:
        return flags
    found = find_blocks(index, flow, signs, loops, wrappers)
    return [*found, *find_hand_overs(index, flow, signs, loops)] if restarts else found


def goes_on(index: Index, flow: Flow, signs: Signs) -> bool:
    """Whether a script does what it must when its model was restructured: it builds an optimizer anew, or it ends."""
    kind = signs.kinds.get("hand-over", Kind(()))
    handed = [call for call in index.calls if named(index.qualified(call.func), (*kind.calls, *kind.written))]
    ways = [way for call in handed for way in flow.enclosing_loops(index.statement(call))]
    turns = {way[0] for way in ways if way}
    called = called_in(index, flow, *turns)
    builds = [index.statement(call) for call in index.calls if named(index.qualified(call.func), kind.again)]
    if any(place.scope in called or not turns.isdisjoint(place.path) for place in builds):
        return True
    ends = [index.statement(call) for call in index.calls if index.qualified(call.func) in EXITS]
    tests = [part.node.test for place in ends for part in place.around if isinstance(part.node, cst.If)]
    flags = {flag for call in handed for flag in _flags(index.parents[call])[:1]}
    return any(not flags.isdisjoint(names_in(test)) for test in tests)


def _flags(holder: cst.CSTNode) -> list[str]:
    """Return the names that a statement gives to what a hand-over answers of the model: restructured, and complete."""
    target = holder.targets[0].target if isinstance(holder, cst.Assign) and len(holder.targets) == 1 else None
    elements = target.elements if isinstance(target, (cst.Tuple, cst.List)) else ()
    return [dotted(element.value) or "" for element in elements][1:]


def find_hand_overs(index: Index, flow: Flow, signs: Signs, loops: list[EpochLoop]) -> list[Block]:
    """Return the hand-overs of a script's score, each with the statements that act on what came of it.

    One is left out where anything else reads what it answers: then the call alone can be replaced.

    Args:
        signs: what tells them.
        loops: the epoch loops.
    """
    kind = signs.kinds.get("hand-over")
    if kind is None or not signs.are_in(index):
        return []
    reading = Reading(index, flow, signs, kind, telling=False)
    calls = [call for call in index.calls if named(index.qualified(call.func), kind.calls)]
    shared = [block for call in calls for block in _Choice(call, reading).shared(calls)]
    if shared:
        return shared  # the hand-overs are read anew without these choices
    found: list[Block] = []
    done: set[cst.CSTNode] = set()
    for call in calls:
        if call not in done:
            others = _beside(call, calls, reading)
            done.update(others)
            one = _HandOver(call, others, reading, loops)
            found += one.blocks() or one.of_some_ranks()
    return found


def handing_over(index: Index, flow: Flow, signs: Signs, backwards: list[Backward]) -> list[Backward]:
    """Leave out the backward passes of trainings that hand no score over, where others do: those of a baseline.

    A loop around both, as over repetitions, says nothing of either.
    """
    hands_over = _handing_over(index, flow, signs)
    if hands_over is None:
        return backwards
    ways = [(one, way) for one in backwards for way in flow.enclosing_loops(one.statement)]
    handing = [(one, [*filter(hands_over, way)]) for one, way in ways]
    around = {loop for _, loops in handing for loop in loops[1:]}
    own = [one for one, loops in handing if loops and loops[0] not in around]
    return [one for one in backwards if one in own] or backwards


def loops_handing_over(index: Index, flow: Flow, signs: Signs, loops: list[EpochLoop]) -> list[EpochLoop]:
    """Leave out such trainings' epoch loops, where they and others run the same function for each epoch."""
    hands_over = _handing_over(index, flow, signs)
    return [loop for loop in loops if hands_over is not None and hands_over(loop.statement)] or loops


def baselines(index: Index, flow: Flow, signs: Signs) -> set[Scope]:
    """Return the functions around such trainings' loops alone, whose optimizers are not the library's matter."""
    hands_over = _handing_over(index, flow, signs)
    if hands_over is None:
        return set()
    scopes: dict[bool, set[Scope]] = {True: set(), False: set()}
    for call, _ in index.method_calls("backward"):
        for way in flow.enclosing_loops(index.statement(call)):
            scopes[any(map(hands_over, way))].update(loop.scope for loop in way)
    return scopes[False] - scopes[True] if scopes[True] else set()


def after_completion(index: Index, signs: Signs, node: cst.CSTNode) -> bool:
    """Whether some code runs only once a hand-over has answered that training is complete."""
    kind = signs.kinds.get("hand-over", Kind(()))
    scope, names = index.scope_of(node), (*kind.calls, *kind.written)
    handed = [call for call in index.calls_of(scope) if named(index.qualified(call.func), names)]
    complete = {flag for call in handed for flag in _flags(index.parents[call])[1:]} - {"_", ""}
    return any(holds and dotted(test) in complete for test, holds in index.guards(node))


def _handing_over(index: Index, flow: Flow, signs: Signs) -> Callable[[Statement], bool] | None:
    """Return what tells whether a loop hands the score over, None where nothing does."""
    kind = signs.kinds.get("hand-over", Kind(()))
    names = (*kind.calls, *kind.written)
    places = [index.statement(call) for call in index.calls if named(index.qualified(call.func), names)]

    def hands_over(loop: Statement) -> bool:
        return any(loop in place.path for place in places) or not called_in(index, flow, loop).isdisjoint(
            place.scope for place in places
        )

    return hands_over if places else None


def _beside(call: cst.Call, calls: Sequence[cst.Call], reading: Reading) -> list[cst.Call]:
    """Return a call with those of the other branches of a choice that each hand the same score over."""
    index = reading.index
    parent = index.statement(call).parent
    if parent is None or not isinstance(parent.node, cst.If) or parent.node.orelse is None:
        return [call]
    inside = [one for one in calls if parent in index.statement(one).path]
    scores = {index.source.code(one.args[0].value) for one in inside if one.args}
    branches: list[cst.BaseSuite] = []
    branch: cst.If | cst.Else | None = parent.node
    while branch is not None:
        branches.append(branch.body)
        branch = branch.orelse if isinstance(branch, cst.If) else None
    if isinstance(branch, cst.If) or len(inside) != len(branches) or len(scores) != 1:
        return [call]
    suites = [next((b for b in branches if b in index.ancestors(one)), None) for one in inside]
    return inside if len(set(suites)) == len(branches) else [call]


class _Choice:
    """The choice of ranks directly around a hand-over, if there is one."""

    def __init__(self, call: cst.Call, reading: Reading) -> None:
        self.call = call
        self.reading = reading
        self.index = reading.index
        statement = self.index.statement(call).parent
        node = None if statement is None else statement.node
        chosen = isinstance(node, cst.If) and not isinstance(self.index.parents.get(node), cst.If)
        self.statement = statement if chosen else None
        self.ranks = condition(reading.flow, node.test) if chosen and isinstance(node, cst.If) else ""

    def shared(self, calls: Sequence[cst.Call]) -> Iterator[Block]:
        """Yield the choice, with what all ranks can do as well in its place; nothing where they cannot.

        Rank 0 hands over and the others are told: then all of them hand over. Where the others do so after it, by a
        choice of their own, that one goes.

        Args:
            calls: all hand-overs.
        """
        if self.statement is None or not self.ranks or not self.call.args:
            return
        others = self._others()
        if others is None:
            return
        if self.ranks == "first":
            if self._leaves_nothing() and self._is_known():
                yield self._block(_lines(self._node.body))
            return
        earlier = (_Choice(one, self.reading) for one in calls if one is not self.call and one.args)
        for one in earlier:
            first = one.ranks == "first" and one.statement in self.statement.preceding and self._same(one)
            if first and self._node.orelse is None and others <= (one._others() or set()) and any(one.shared(calls)):
                yield self._block("")
                return

    @property
    def _node(self) -> cst.If:
        assert self.statement is not None
        assert isinstance(self.statement.node, cst.If)
        return self.statement.node

    def _block(self, rest: str) -> Block:
        return Block(node=self.call, index=self.index, name="ranks", rest=rest, anchors={"whole": self._node})

    def _same(self, other: _Choice) -> bool:
        return self.index.source.code(self.call.args[0].value) == self.index.source.code(other.call.args[0].value)

    def _others(self) -> set[str] | None:
        """Return what is done beside handing over, None where one rank alone may have to do some of it."""
        one = _HandOver(self.call, [self.call], self.reading, [])
        answer = one.answer(self.call)
        found = set()
        for node in one.other(self._node.body, [answer[0]] if answer is not None and answer[0] else []):
            value = node.value if isinstance(node, cst.Expr) else None
            beside = isinstance(value, cst.Call) and named(self.index.qualified(value.func), self.reading.kind.beside)
            if not beside:
                return None
            found.add(self.index.source.code(node))
        return found

    def _leaves_nothing(self) -> bool:
        """Whether the other ranks do nothing but begin what is told to them."""
        orelse = self._node.orelse
        if orelse is None:
            return True
        if isinstance(orelse, cst.If) or next(self.reading.other(orelse.body), None) is not None:
            return False
        begun, given = ({b.target for b in self._bound(suite)} for suite in (orelse.body, self._node.body))
        return begun <= given

    def _bound(self, suite: cst.BaseSuite) -> list[Binding]:
        return [b for b in self.index.bindings if suite in self.index.ancestors(b.statement.node)]

    def _is_known(self) -> bool:
        """Whether all ranks have the score."""
        scope = self.index.scope_of(self.call)
        bound = self.index.bound(tuple(names_in(self.call.args[0].value)), scope)
        ranks = (ranks_at(self.index, self.reading.flow, b.statement, []) for b in bound)
        return all(one not in ("first", "others") for one in ranks)


def _lines(suite: cst.BaseSuite) -> str:
    """Return the code of a suite, without its indentation."""
    if isinstance(suite, cst.SimpleStatementSuite):
        return cst.Module([cst.SimpleStatementLine(body=suite.body)]).code
    return cst.Module(list(suite.body)).code  # type: ignore[arg-type]


class _HandOver:
    """One hand-over of a score.

    Args:
        calls: the call, or one in each branch of a choice.
    """

    def __init__(self, call: cst.Call, calls: Sequence[cst.Call], reading: Reading, loops: list[EpochLoop]) -> None:
        self.call = call
        self.calls = calls
        self.reading = reading
        self.index = reading.index
        self.loops = loops
        own = self.index.statement(call)
        self.whole = own if len(calls) == 1 or own.parent is None else own.parent
        self.scope = own.scope

    def blocks(self) -> list[Block]:
        """Return the hand-over with what belongs to it, nothing where the call alone can be replaced."""
        answers = [self.answer(call) for call in self.calls]
        names = answers[0]
        if any(argument(call, "force_switch", 2) for call in self.calls):
            return []
        if names is None or any(one is None or one[1:] != names[1:] for one in answers):
            return []
        given = [name for one in answers if one is not None for name in one[:1] if name]
        if len(self.calls) > 1 and next(self.other(self.whole.node, given), None) is not None:
            return []
        if len(self.calls) > 1 and self.reading.leaking([self.whole], [*given, *names[1:]]):
            return []
        _, restructured, complete = names
        after = list(self._moves(given))
        acting = self._acting(restructured, complete)
        if acting is None:
            return []
        branches = []
        for statement in acting:
            branch = self._branch(statement, restructured, complete)
            if branch is None:
                return []
            branches.append(branch)
        stays = any(branch.rest for branch in branches)
        found = Block(
            node=self.call,
            index=self.index,
            name="hand-over",
            score=self.index.source.code(self.call.args[0].value),
            model=self._model(),
            complete=complete if stays else "",
            odd=self._ranked(),
            anchors={"whole": self.whole.node},
        )
        moves = [Block(node=one.node, index=self.index, name="move", anchors={"whole": one.node}) for one in after]
        return [found, *moves, *branches]

    def of_some_ranks(self) -> list[Block]:
        """Return a hand-over that cannot be taken out, where some ranks never come to it, which all must."""
        odd = self._ranked()
        found = Block(node=self.call, index=self.index, name="hand-over", odd=odd, anchors={"whole": self.whole.node})
        return [found] if odd else []

    def answer(self, call: cst.Call) -> tuple[str, str, str] | None:
        """Return the names of what a call answers: the model, whether it was restructured, whether all is complete."""
        node = self.index.statement(call).node
        small = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
        if len(call.args) < 2 or any(arg.star for arg in call.args):
            return None
        if isinstance(small, cst.Expr) and small.value is call:
            return ("", "", "")
        if not isinstance(small, cst.Assign) or small.value is not call or len(small.targets) != 1:
            return None
        target = small.targets[0].target
        if not isinstance(target, (cst.Tuple, cst.List)) or len(target.elements) != 3:
            return None
        model, *flags = (dotted(element.value) or "" for element in target.elements)
        if not all(flag.isidentifier() for flag in flags) or not model or not self._is_same(model, call):
            return None
        return (model, *("" if flag == "_" else flag for flag in flags))  # type: ignore[return-value]

    def _is_same(self, model: str, call: cst.Call) -> bool:
        """Whether the model that a call answers goes by a name that it had before, or is not read."""
        given = dotted(argument(call, "net", 1) or call.args[1].value) or ""
        root = model.partition(".")[0]
        uses = [one for one in names_read(self.scope.node, root) if self.whole not in self.index.statement(one).path]
        return model in ("_", given) or given == f"{model}.module" or not uses

    def other(self, node: cst.CSTNode, given: Sequence[str]) -> Iterator[cst.CSTNode]:
        """Yield what some code does besides handing over, and besides unwrapping or moving the model."""
        for one in self.reading.other(node, given):
            if not self._is_move(one, given):
                yield one

    def _is_move(self, node: cst.CSTNode, models: Sequence[str]) -> bool:
        """Whether a small statement moves the model to a device, or gives what a wrapper holds another name."""
        value = node.value if isinstance(node, (cst.Assign, cst.Expr)) else None
        target = dotted(node.targets[0].target) or "" if isinstance(node, cst.Assign) else ""
        if target.endswith(".module"):  # a wrapper gets back what it held
            models = [*models, target]
        if isinstance(node, cst.Assign) and (target not in models or len(node.targets) > 1):
            return False
        if isinstance(value, cst.Call) and method_name(value):
            moved = dotted(receiver(value)) in models and method_name(value) in ("to", "cuda", "cpu")
            return moved and all(self.reading.harmless(arg.value) for arg in value.args)
        return isinstance(node, cst.Assign) and (dotted(value) or "").removesuffix(".module") in models

    def _moves(self, given: Sequence[str]) -> Iterator[Statement]:
        """Yield the statements directly after the hand-over that move the model it answers."""
        for statement in self.whole.following:
            node = statement.node
            if not isinstance(node, cst.SimpleStatementLine) or not all(self._is_move(s, given) for s in node.body):
                return
            yield statement

    def _acting(self, restructured: str, complete: str) -> list[Statement] | None:
        """Return the choices that ask what came of the hand-over, None where anything else does."""
        found: dict[Statement, None] = {}
        flags = [name for name in (restructured, complete) if name]
        for flag in flags:
            uses = [use for use in names_read(self.scope.node, flag) if use in self.index.parents]
            for statement in map(self.index.statement, uses):
                if self.whole in statement.path:
                    continue
                while statement.parent is not None and isinstance(statement.parent.node, cst.If):
                    if not set(names_in(statement.parent.node.test)) & set(flags):
                        break
                    statement = statement.parent
                after = statement in self.whole.following and statement.scope is self.scope
                if not after or not isinstance(statement.node, cst.If):
                    return None
                found[statement] = None
        return list(found)

    def _branch(self, statement: Statement, restructured: str, complete: str) -> Block | None:
        """Return what stays of a choice where a restructured model ends the process, None where that cannot be told."""
        assert isinstance(statement.node, cst.If)
        branch: cst.If | cst.Else | None = statement.node
        done: cst.If | None = None
        while branch is not None:
            if isinstance(branch, cst.Else):
                return None
            holds = _holds(branch.test, {restructured: False, complete: None})
            if holds is False:
                if next(self._rebuilding(branch.body), None) is not None:
                    return None
            elif holds is None and dotted(branch.test) == complete and done is None:
                done = branch
            else:
                return None
            branch = branch.orelse
        rest = ""
        if done is not None and not self._only_ends(done, statement):
            rest = cst.Module([done.with_changes(orelse=None, leading_lines=[])]).code
        return Block(node=statement.node, index=self.index, name="branch", rest=rest, anchors={"whole": statement.node})

    def _rebuilding(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield what some code does besides building what depends on the model anew, and leaving."""
        for one in self.reading.other(node):
            value = one.value if isinstance(one, (cst.Assign, cst.Expr)) else None
            wraps = isinstance(value, cst.Call) and bool(wrapper_kind(self.reading.flow, value))
            if not wraps and not self._is_move(one, self._names(one)):
                yield one

    def _names(self, node: cst.CSTNode) -> list[str]:
        if isinstance(node, cst.Assign):
            return [dotted(target.target) or "" for target in node.targets]
        held = receiver(node.value) if isinstance(node, cst.Expr) else None
        return [dotted(held) or ""] if held is not None else []

    def _only_ends(self, done: cst.If, statement: Statement) -> bool:
        """Whether what follows complete training is nothing but its end."""
        if next(self.reading.other(done.body), None) is not None:
            return False
        small = last_of(done.body)
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            return self.index.qualified(small.value.func) in EXITS
        loop = next((loop for loop in self.loops if loop.statement in statement.path), None)
        return isinstance(small, cst.Break) and loop is not None and not loop.leftovers

    def _model(self) -> str:
        """Return the code of the model that is handed over, by a name that it has outside the hand-over."""
        codes = []
        for call in self.calls:
            node = argument(call, "net", 1) or call.args[1].value
            code = self.index.source.code(node)
            inside = [b for b in self.index.bindings if b.target == code and self.whole in b.statement.path]
            made = [b.value for b in inside if b.value is not None and b.item is None]
            own = self.whole is not self.index.statement(call)
            codes.append(self.index.source.code(made[0]) if made and own else code)
        return min((code.removesuffix(".module") if len(codes) > 1 else code for code in codes), key=len)

    def _ranked(self) -> list[Site]:
        """Return the condition, or the call, that keeps some ranks from handing their score over."""
        for part in self.whole.around:
            if isinstance(part.node, cst.If) and condition(self.reading.flow, part.node.test):
                return [Site(node=part.node.test, index=self.index)]
        reached = ranks_at(self.index, self.reading.flow, self.whole, [])
        return [Site(node=self.call, index=self.index)] if reached in ("first", "others") else []


def _holds(test: cst.BaseExpression, known: dict[str, bool | None]) -> bool | None:
    """Return whether a condition over some names holds, None where that depends."""
    name = dotted(test)
    if name is not None:
        return known.get(name)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _holds(test.expression, known)
        return None if inner is None else not inner
    if isinstance(test, cst.BooleanOperation):
        sides = [_holds(side, known) for side in (test.left, test.right)]
        if isinstance(test.operator, cst.And):
            return False if False in sides else True if sides == [True, True] else None
        return True if True in sides else False if sides == [False, False] else None
    return None
