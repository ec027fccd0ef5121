"""Find where what a script has saved of its own training keeps a later round from training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product, takewhile

import libcst as cst

from retrofit.knowledge.kinds import ListsFiles, WritesPath
from retrofit.survey.arguments import is_namespace
from retrofit.survey.averages_by_name import by_names
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.counters import increments, is_number
from retrofit.survey.displays import chosen_of
from retrofit.survey.flow import Flow
from retrofit.survey.holding import Holding
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in, loop_of
from retrofit.survey.names import Variable
from retrofit.survey.nodes import (
    dotted,
    exits,
    key_of,
    last_name,
    mentions,
    named_in,
    names_in,
    nodes_in,
    receiver,
    unquoted,
)
from retrofit.survey.order import (
    first_values,
    leading_to,
    leads_to,
    may_follow,
    may_lack_value,
    parting,
    runs_always,
)
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.values import element_of, formatted, written_items
from retrofit.survey.scores.ways import by_rank
from retrofit.survey.settings import calls_by_name
from retrofit.survey.sites.folder import Resumption
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.optimizer import Scheduler


def find_resumptions(index: Index, flow: Flow, loops: list[EpochLoop], schedulers: list[Scheduler]) -> list[Resumption]:
    """Return what leaves before the training by what a checkpoint says, and what takes the end of the training from it.

    What a counter alone begins with stays, and the counter is added to those that the loop begins anew. So is the epoch
    of a schedule, where the loop knows it; else it is left out.

    Args:
        loops: the epoch loops.
        schedulers: the learning-rate schedulers.
    """
    counters = {loop: _restored(index, flow, loop) for loop in loops}
    for loop, names in counters.items():
        loop.resumed = [name for name in names if not _numbers_files(index, flow, loop, name)]
        loop.resumed += [name for name in _skipped_until(index, loop) if name not in loop.resumed]
    loads = set(index.calls_to("torch.load"))
    loaded = _Loaded(index, flow, loops, loads)
    by_hand = [*loaded.scheduled_by_hand(counters)]
    if not loads or not index.calls_to("torch.save") or not loops:
        return by_hand
    whole = (*loaded.leaving(), *loaded.taking_all(), *loaded.scheduling(schedulers))
    found = dict.fromkeys(whole, ("", "")) | loaded.taking()
    ending = [Resumption(node=here.node, index=index, alone=one, among=among) for here, (one, among) in found.items()]
    return [*ending, *by_hand, *loaded.counted_elsewhere(schedulers)]


class _Loaded:
    """What a script does with what it has loaded before its training.

    Args:
        loads: the calls that load.
    """

    def __init__(self, index: Index, flow: Flow, loops: list[EpochLoop], loads: set[cst.Call]) -> None:
        self._index, self._flow, self._loops = index, flow, loops
        data = [call for call in index.calls if _makes_data(call, flow)]  # its rows are no checkpoint
        self._loaded, self._training = Holding(loads, flow, free=data), leading_to(loops, flow)
        self._loads = [index.statement(call) for call in loads]
        listing = [call for call, _ in index.method_calls(*index.knowledge.methods(ListsFiles))]
        files = [*listing, *index.calls_to(*index.knowledge.named(ListsFiles))]
        self._named = Holding([*loads, *files], flow, free=data)
        self._inside = {loop.statement for loop in loops}
        self._called = called_in(index, flow, *self._inside)
        self._asked = _within_functions(flow, [one for loop in loops for one in _ending(index, flow, loop)])

    def _is_loaded(self, node: cst.CSTNode, here: Statement, *, named: bool = False) -> bool:
        """Whether an expression may be of a checkpoint, or where that is `named` of a file's name, loaded by then."""
        holding = self._named if named else self._loaded
        return holding.holds_in_turn(node) and any(self._may_come_before(load, here) for load in self._loads)

    def _may_come_before(self, load: Statement, here: Statement) -> bool:
        """Whether a run that comes to a statement may have loaded by then: not in the other branch of a choice."""
        apart = parting(here, load, self._flow)
        instead = bool(apart) and all(exclude_each_other(*pair) for pair in apart)
        return not instead and may_follow(here, load, self._flow)

    def _is_early(self, here: Statement) -> bool:
        """Whether a statement runs before the training, as what `Engine().train()` builds does, too."""
        if not self._inside.isdisjoint(here.path):
            return False
        ways = self._flow.leading(here)
        if any(leads_to(way, self._training) for way in ways):
            return True
        first = [call for way in ways for call in self._flow.callers(way.scope)]
        later = [
            call
            for loop in self._loops
            for way in self._flow.leading(loop.statement)
            for call in self._flow.callers(way.scope)
        ]
        return any(one is not call and one in nodes_in(call) for call in later for one in first)

    def leaving(self) -> Iterator[Statement]:
        """Yield what leaves before the training by what a checkpoint says; as an error, by where the training begins.

        What else is an error is one in each round.
        """
        index, flow = self._index, self._flow
        begun = {v for loop in self._loops for v in _begun(index, flow, loop)}
        for node in (n for kind in (cst.Return, cst.Expr, cst.Raise, cst.Assert) for n in index.nodes_of(kind)):
            here, error = index.statement(node), isinstance(node, (cst.Raise, cst.Assert))
            if not (error or isinstance(node, cst.Return) or exits(node)):
                continue
            if not leads_to(here, self._training) and (isinstance(node, cst.Return) or not self._is_early(here)):
                continue  # the training follows, or would but for an end of the process
            tests = [one.node.test for one in here.around if isinstance(one.node, cst.If)]
            told: list[cst.CSTNode] = [*tests, *([node.test] if isinstance(node, cst.Assert) else [])]
            if not error:  # the innermost says why: what evaluates a checkpoint leaves by an option, not by that
                told = [*[test for test in tests if not by_rank(index, flow, test, here)][:1]]
            else:
                parts = [part for test in told for part in named_in(test)]
                told = [part for part in parts if flow.member(dotted(part) or "", here.scope) in begun]
            known = [part for part in told if self._is_loaded(part, here)]
            parts = [part for test in known for part in named_in(test) if self._is_loaded(part, here)]
            if known and not (parts and all(self._is_option(part, here) for part in parts)):
                yield here

    def _is_option(self, node: cst.CSTNode, here: Statement) -> bool:
        """Whether an expression is a parsed option that nothing gives another value.

        Where a checkpoint has all of them, it is what the earlier training was begun with, and left nothing by.
        """
        whole, _, part = (dotted(node) or "").rpartition(".")
        given = [b.value for b in self._index.bindings if b.target.endswith(f".{part}")]
        if not whole or not all((dotted(value) or "").endswith(f".{part}") for value in given):
            return False
        made = self._flow.deep_origins(cst.parse_expression(whole), here.scope)
        return any(is_namespace(one.node, self._flow) for one in made)

    def taking_all(self) -> Iterator[Statement]:
        """Yield what gives an object whatever a checkpoint has for it, the training's own state among that."""
        index, flow = self._index, self._flow
        changed = {
            flow.member(b.target, b.statement.scope)
            for b in index.bindings
            if "." in b.target and (b.statement.scope in self._called or not self._inside.isdisjoint(b.statement.path))
        }
        known = {flow.member(f"{whole}.{part}".rstrip("."), scope) for (scope, whole), part in self._asked}
        known = changed & (known | {v for loop in self._loops for v in _begun(index, flow, loop)})
        parts = {name.rpartition(".")[2] for _, name in known}
        for call, held, name, value in calls_by_name(index):
            here = index.statement(call)
            meant = {flow.member(f"{dotted(held) or ''}.{part}", here.scope) for part in parts}
            if isinstance(name, cst.SimpleString) or known.isdisjoint(meant):
                continue
            if self._is_early(here) and self._is_loaded(value, here):
                yield here

    def scheduling(self, schedulers: list[Scheduler]) -> Iterator[Statement]:
        """Yield what sets an attribute of a scheduler from a checkpoint, which no epoch loop can begin anew.

        One that is made anew within the training as well is set to where that is, by a counter that begins anew.
        """
        for bound, scheduler in _set_in_schedulers(self._flow, schedulers):
            value, here = bound.value, bound.statement
            early = self._is_early(here) and here.scope not in self._called
            resumes = early and value is not None and self._is_loaded(value, here)
            if resumes and not _begins_anew(self._flow, self._loops, bound, scheduler):
                yield here

    def scheduled_by_hand(self, counters: dict[EpochLoop, list[str]]) -> Iterator[Resumption]:
        """Yield the number of an earlier start with which an object that sets rates is made, or that it is given.

        Its class is one of the project's.
        """
        index, flow = self._index, self._flow
        restored = {flow.variable(name, loop.scope) for loop, names in counters.items() for name in names}
        copied = [b for variable in restored for b in flow.bindings_of(variable)]
        restored |= {
            flow.variable(name, b.statement.scope) for b in copied if (name := dotted(b.value)) not in (None, "None")
        }
        setting = {b.statement.scope.enclosing_class for b in index.items if unquoted(b.target).endswith("['lr']")}
        setting -= {None, *(loop.scope.enclosing_class for loop in self._loops)}
        if not (restored and setting):
            return
        made = [one for one in index.calls if flow.defined(one.func, index.scope_of(one)) in setting]
        given = [arg.value for call in made for arg in call.args]
        given += [b.value for b in index.bindings if b.value is not None and not setting.isdisjoint(_holders(flow, b))]
        for part in dict.fromkeys(part for value in given for part in named_in(value)):
            here = index.statement(part)
            if flow.variable(name := dotted(part) or "", here.scope) in restored and self._is_early(here):
                yield Resumption(node=part, index=index, anchors={"number": part}, number=name)

    def counted_elsewhere(self, schedulers: list[Scheduler]) -> Iterator[Resumption]:
        """Yield what a checkpoint, or its name, gives to a number with which a loop begins, and of which more is made.

        That is a number of a module's own, how many turns a loop has before the training, as one that steps a schedule
        to where it was, or the epoch to which a scheduler is stepped. Where the number is read for anything else as
        well, such as the names of files that it has, these alone get it as it was in the first round.
        """
        index, flow = self._index, self._flow
        found = dict[cst.CSTNode, str]()
        begins = [
            (loop, name, known)
            for loop in self._loops
            for name in _begin_names(loop)
            for known in (name, *_copied(name, loop.scope, index))
        ]
        loops = [one.node for one in index.statements if isinstance(one.node, (cst.For, cst.While))]
        turns: list[cst.CSTNode] = [one.iter if isinstance(one, cst.For) else one.test for one in loops]
        turns += [step.node for one in schedulers for step in one.steps]
        uses = [(node, use) for node in turns if begins and self._is_early(use := index.statement(node))]
        uses += [(b.value, b.statement) for b in index.bindings if b.value is not None and _is_of_module(flow, b)]
        for bound, (loop, name, known) in product(index.bindings, begins):
            here, value = bound.statement, bound.value
            if value is None or not _is_same(flow, bound.target, here.scope, known, loop.scope):
                continue
            if not self._is_early(here) or not self._is_loaded(value, here, named=True):
                continue
            made = [
                part
                for node, use in uses
                if may_follow(use, here, flow)
                for part in named_in(node)
                if _is_same(flow, dotted(part) or "", use.scope, known, loop.scope)
            ]
            if made:
                loop.resumed += [name] if name not in loop.resumed else []
                near = all(index.scope_of(part) is here.scope for part in made)
                parts = made if near and self._is_read_otherwise(bound, made) else [value]
                found |= dict.fromkeys(parts, known)
        for part, name in found.items():
            yield Resumption(node=part, index=index, anchors={"number": part}, number=name, read=True)

    def _is_read_in(self, loop: EpochLoop, name: str) -> bool:
        """Whether the turns of a loop read a name, or what decides whether it is left does."""
        meant = self._flow.variable(name, loop.scope)
        return mentions(loop.body, {name}) or any(variable == meant for variable, _ in self._asked)

    def _is_read_otherwise(self, bound: Binding, made: list[cst.CSTNode]) -> bool:
        """Whether a function reads what it gives a name for more than some expressions, before the training."""
        here, index = bound.statement, self._index
        nodes = [*index.nodes_of(cst.Name), *index.attributes]
        read = [one for one in nodes if dotted(one) == bound.target and one not in made]
        places = [index.statement(one) for one in read if not isinstance(index.parents[one], cst.AssignTarget)]
        return any(one.scope is here.scope and one.order > here.order and self._is_early(one) for one in places)

    def taking(self) -> dict[Statement, tuple[str, str]]:
        """Return what takes the end of the training from a checkpoint, with its name, given alone or beside others.

        The number of the first epoch is no such state: what reads it in the turns gets that of the first round, as the
        epochs do.
        """
        index, flow, found = self._index, self._flow, dict[Statement, tuple[str, str]]()
        ending = {variable for variable, _ in self._asked} | {*by_names(index, flow, self._inside)}
        settings = {variable for variable, _ in self._asked if _holds_settings(index, flow, variable, self._asked)}
        ending |= {(scope, f"{whole}.{part}") for (scope, whole), part in self._asked if (scope, whole) in settings}
        parts = {name.removeprefix("self.") for _, name in ending}
        begins = [(loop, name) for loop in self._loops for name in _begin_names(loop) if self._is_read_in(loop, name)]
        for here, given_to, value, item in _given(index):
            names = [name.removesuffix(".__dict__") for name in given_to]
            given = {v for name in names for v in _variables(flow, name, here.scope)}
            given |= {v for name in names for v in _handed_over(flow, name, here)}
            given -= settings - {flow.variable(name, here.scope) for name in names}
            given |= {flow.member(name, here.scope) for name in names if name.rpartition(".")[2] in parts}
            begun = [
                (loop, first)
                for (loop, first), name in product(begins, names)
                if _is_same(flow, name, here.scope, first, loop.scope)
            ]
            if ending.isdisjoint(given) and not begun:
                continue
            if isinstance(value, cst.Dict) and any(_alone_gives(index, name, here) for name in names):
                continue  # a part of it may be of the checkpoint, and the rest is needed
            asked = [part for variable, part in self._asked if variable in given] or [""] * len(begun)
            if _is_setting(index, value, asked) or not self._is_early(here):
                continue
            decide = [one for one, _ in _that_decide(flow, value, item, asked)]
            if not any(self._is_loaded(one, here) for one in decide if one is value or dotted(one) is None):
                continue
            for loop, first in begun:
                loop.resumed += [first] if first not in loop.resumed else []
            if begun:
                continue
            attributes = [name for name in names if _alone_gives_attribute(index, flow, name, here)]
            alone = [*attributes, *(name for name in names if _alone_gives(index, name, here))]
            counted = [loop for name in alone for loop in self._loops if _counts_to_the_end(flow, name, here, loop)]
            for loop in counted:
                loop.resumed += [name for name in alone if name not in loop.resumed]
            if not counted:
                beside = [b for b in index.bound_in(here) if b.statement is here and b.item not in (None, item)]
                needed = [b for b in beside if _alone_gives(index, b.target, here) and self._is_made(b)]
                found.setdefault(here, (attributes[0] if attributes else "", names[0] if needed else ""))
        return found

    def _is_made(self, bound: Binding) -> bool:
        """Whether what a name gets out of several is made by the script, and is not of a checkpoint."""
        flow, here = self._flow, bound.statement
        wholes = [one.node for one in flow.origins(bound.value, here.scope)] if bound.value is not None else []
        parts = [part for one in wholes for part, _ in _that_decide(flow, one, bound.item, [""]) if part is not one]
        return bool(parts) and not any(self._is_loaded(one, here) for one in parts)


def _makes_data(call: cst.Call, flow: Flow) -> bool:
    """Whether a call makes a data set or a loader, one of PyTorch's or of a class of the project."""
    made = flow.class_made(call)
    return (flow.root(made) if made else flow.index.qualified(call.func)).startswith("torch.utils.data.")


def _restored(index: Index, flow: Flow, loop: EpochLoop) -> list[str]:
    """Return the counters that may go on in a loop from an earlier start's number, as from a checkpoint's."""
    inside = [b for b in index.bindings if loop.statement in b.statement.path and b.statement.scope is loop.scope]
    found = []
    for name in dict.fromkeys(b.target for b in inside if increments(b)):
        bound = [b for b in index.bindings if b.target == name and ("." in name or b.statement.scope is loop.scope)]
        taken = [b for b in bound if b not in inside and not increments(b) and not is_number(b.value)]
        counts = all(increments(b) for b in inside if b.target == name)
        made = [b.value.func for b in bound if isinstance(b.value, cst.Call)]
        counts = counts and not any(index.qualified(one).startswith("torch.") for one in made)  # a tensor
        counts = counts and not any(isinstance(b.value, cst.Float) for b in bound)  # a sum, of losses say
        if counts and first_values(index, flow, loop, name) and any(_may_come_first(b, loop) for b in taken):
            found.append(name)
    return found


def _numbers_files(index: Index, flow: Flow, loop: EpochLoop, name: str) -> bool:
    """Whether a counter decides nothing in a loop, but that something is due each so many turns, and numbers files.

    Another round goes on with its numbers, or a script that keeps the files of the highest ones would keep none of it.
    """
    known, numbers = index.knowledge, False
    elsewhere = [one for one in called_in(index, flow, loop.statement) if name not in one.names]
    if "." in name or any(
        isinstance(one.node, cst.FunctionDef) and name in names_in(one.node.body) for one in elsewhere
    ):
        return False
    counts = {b.statement for b in index.bound([name], loop.scope) if increments(b)}
    for part in named_in(loop.node):
        if dotted(part) != name or index.statement(part) in counts:
            continue
        around = list(takewhile(lambda one: not isinstance(one, cst.BaseStatement), index.ancestors(part)))
        calls = [one.func for one in around if isinstance(one, cst.Call)]
        files = any(known.known(WritesPath, index.qualified(one)) for one in calls)
        kept = any(isinstance(one, cst.AssignTarget) and _is_of_dict(one.target, flow) for one in around)
        told = kept or any(map(formatted, around)) or any(known.logs(dotted(one) or "") for one in calls)
        parts = [one.operator for one in around if isinstance(one, cst.BinaryOperation)]
        if not files and not told and not any(isinstance(one, cst.Modulo) for one in parts):
            return False
        numbers = numbers or files
    return numbers


def _is_of_dict(target: cst.BaseExpression, flow: Flow) -> bool:
    """Whether what gets a value is an item of a dict, which takes any number, and a list or tensor no higher ones."""
    if not isinstance(target, cst.Subscript):
        return False
    made = [one.node for one in flow.origins(target.value, flow.index.scope_of(target))]
    return bool(made) and all(isinstance(one, (cst.Dict, cst.DictComp)) for one in made)


def _skipped_until(index: Index, loop: EpochLoop) -> list[str]:
    """Return the numbers up to which the loop passes turns over, and which a checkpoint gives: `self.start_epoch`."""
    skipping = [
        part.node.test
        for part in index.statements
        if part.parent is loop.statement and isinstance(part.node, cst.If) and _continues(index, part.node)
    ]
    found = []
    for name in dict.fromkeys(name for test in skipping for name in names_in(test, called=False)):
        bound = [b for b in index.bindings if b.target == name and ("." in name or b.statement.scope is loop.scope)]
        begins = [b for b in bound if is_number(b.value)]
        if begins and len(begins) < len(bound) and all(loop.statement not in b.statement.path for b in bound):
            found.append(name)
    return found


def _continues(index: Index, choice: cst.If) -> bool:
    last = index.statements_in(choice.body)[-1].node
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Continue)


def _may_come_first(binding: Binding, loop: EpochLoop) -> bool:
    return binding.statement.scope is not loop.scope or binding.statement.order < loop.statement.order


def _begun(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[Variable]:
    """Yield what an epoch loop begins with: in `range(first, 10)`, or counted up to where a `while` ends."""
    names: Iterable[str] = _begin_names(loop)
    if isinstance(loop.node, cst.While):
        counted = {b.target for b in index.bound_in(loop.statement) if increments(b)}
        names = (name for name in names_in(loop.node.test) if name in counted)
    yield from (flow.member(name, loop.scope) for name in names)


def _begin_names(loop: EpochLoop) -> Iterator[str]:
    """Yield the names in the first number of a loop's range."""
    for call in nodes_in(loop.node.iter) if isinstance(loop.node, cst.For) else ():
        if isinstance(call, cst.Call) and last_name(call.func) in ("range", "trange") and len(call.args) > 1:
            yield from names_in(call.args[0].value)


def _copied(name: str, scope: Scope, index: Index) -> Iterator[str]:
    """Yield the names whose values a name gets as they are: `first = begun`, `first = begun or 0`."""
    for bound in index.bound([name], scope):
        yield from (
            known
            for part in (bound.value, *chosen_of(bound.value))
            if (known := dotted(part)) not in (None, "None", name)
        )


def _is_same(flow: Flow, name: str, scope: Scope, other: str, inside: Scope) -> bool:
    """Whether two names mean one variable, or one attribute of an object that functions have by names of their own."""
    (held, _, part), (holder, _, attribute) = name.rpartition("."), other.rpartition(".")
    if part != attribute or bool(held) != bool(holder):
        return False
    if flow.member(name, scope) == flow.member(other, inside):
        return True
    return bool(held) and not flow.deep_origins(cst.parse_expression(held), scope).isdisjoint(
        flow.deep_origins(cst.parse_expression(holder), inside)
    )


def _is_of_module(flow: Flow, bound: Binding) -> bool:
    """Whether what gets a value is an attribute of a module of the project's own."""
    return any(flow.root(one).startswith("torch.nn.") for one in _holders(flow, bound))


def _holders(flow: Flow, bound: Binding) -> set[Scope]:
    """Return the project's classes of which an object may get a value as an attribute."""
    holder, scope = bound.target.rpartition(".")[0], bound.statement.scope
    classes = {scope.enclosing_class} if holder == scope.own else set()
    if holder and holder != scope.own:
        classes = {flow.class_made(one.node) for one in flow.deep_origins(cst.parse_expression(holder), scope)}
    return {one for one in classes if one is not None}


def _set_in_schedulers(flow: Flow, schedulers: list[Scheduler]) -> Iterator[tuple[Binding, cst.BaseExpression]]:
    """Yield what gives an attribute of a scheduler a value, `scheduler.last_epoch = epoch`, with the scheduler."""
    made = {Origin(one.node) for one in schedulers if isinstance(one.node, cst.BaseExpression)}
    for bound in flow.index.bindings if made else ():
        held = bound.target.rpartition(".")[0]
        if held and held != "self":
            scheduler = cst.parse_expression(held)
            if not made.isdisjoint(flow.deep_origins(scheduler, bound.statement.scope)):
                yield bound, scheduler


def _begins_anew(flow: Flow, loops: list[EpochLoop], bound: Binding, scheduler: cst.BaseExpression) -> bool:
    """Add a scheduler's attribute to what an epoch loop begins anew, if one knows it and it is there in each run."""
    name, scope, knowing = dotted(scheduler) or "", bound.statement.scope, False
    for loop in loops:
        values = [dotted(origin.node) for origin in flow.deep_origins(scheduler, loop.scope)]
        known = flow.variable(name, scope) == flow.variable(name, loop.scope) and "None" not in values
        if known and not may_lack_value(name, loop.statement, flow.index):
            loop.resumed += [bound.target] if bound.target not in loop.resumed else []
            knowing = True
    return knowing


def _variables(flow: Flow, name: str, scope: Scope) -> Iterator[Variable]:
    """Yield what a dotted name is, and is a part of."""
    parts = name.split(".")
    for number in range(1 + (parts[0] == "self"), len(parts) + 1):
        yield flow.variable(".".join(parts[:number]), scope)


def _handed_over(flow: Flow, name: str, here: Statement) -> Iterator[Variable]:
    """Yield what callers call an object that their function gets, and gives a part, or tells to take something."""
    whole, _, part = name.partition(".")
    if whole not in here.scope.parameters or (not part and any(b.target == name for b in flow.index.bound_in(here))):
        return
    for source in flow.sources(flow.variable(whole, here.scope)):
        if (given := dotted(source.value)) is not None:
            yield from _variables(flow, f"{given}.{part}".rstrip("."), source.scope)


def _holds_settings(index: Index, flow: Flow, variable: Variable, asked: list[tuple[Variable, str]]) -> bool:
    """Whether a variable holds settings alone, whatever gives it a value, so that one of them is none of the others."""
    parts = [part for one, part in asked if one == variable]
    given = [(one.value, one.scope) for one in flow.sources(variable) if all(parts)]
    return bool(given) and all(
        value is not None and (_is_setting(index, value, parts) or _is_record(flow, value, scope))
        for value, scope in given
    )


def _is_record(flow: Flow, node: cst.BaseExpression, scope: Scope) -> bool:
    """Whether a value only keeps what it is given: parsed options, or an object of a class without further methods."""
    made = [one.node for one in flow.deep_origins(node, scope)]
    kinds = {flow.class_made(one) for one in made if not is_namespace(one, flow)}
    return bool(made) and all(
        kind is not None
        and flow.root(kind) in ("", "object")
        and {name for one in flow.lineage(kind) for name in one.inner} <= {"__init__"}
        for kind in kinds
    )


def _is_setting(index: Index, value: cst.BaseExpression, parts: list[str]) -> bool:
    """Whether a value is an object of settings, made by their names, `Config(**known)`, of which some decide.

    Args:
        parts: the attributes that decide, "" for the object itself; what is given to one as it trains is no setting.
    """
    if not parts or not isinstance(value, cst.Call) or all(arg.star != "**" for arg in value.args):
        return False
    changed = {b.target.rpartition(".")[2] for b in index.bindings if "." in b.target}
    return all(part and part not in changed for part in parts)


def _ending(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[tuple[Variable, str]]:
    """Yield what decides whether an epoch loop is left, but for its counters, with the part of it that does."""
    assert isinstance(loop.node, (cst.For, cst.While))
    tests = [loop.node.test] if isinstance(loop.node, cst.While) else []
    scopes = called_in(index, flow, loop.statement)
    for node in (*index.nodes_of(cst.Break), *index.nodes_of(cst.Return), *index.nodes_of(cst.Expr)):
        here = index.statement(node)
        leaves = exits(node) if isinstance(node, cst.Expr) else loop.statement in here.path
        left = loop_of(index, here) if isinstance(node, cst.Break) else None
        if left is not None and loop.statement not in (left, loop_of(index, left)):
            continue  # a loop within that over batches, which goes on
        if leaves and (loop.statement in here.path or here.scope in scopes):
            choice = next((one for one in index.ancestors(node) if isinstance(one, (cst.If, cst.FunctionDef))), None)
            tests += [choice.test] if isinstance(choice, cst.If) else []
    counters = {loop.target, *loop.resumed}
    for test in tests:
        for part in named_in(test):
            name = dotted(part) or ""
            if name not in counters and name != "self":
                whole = next(_variables(flow, name, index.scope_of(test)))
                key = (key_of(index.parents[part]) or "").strip("'")
                yield whole, name.removeprefix(whole[1]).removeprefix(".") or key


def _alone_gives(index: Index, name: str, here: Statement) -> bool:
    """Whether a name may have no value but the one that a statement gives it, which is read in later rounds too."""
    bound = {one.statement.node for one in index.bound([name], here.scope)}
    earlier = any(runs_always(early.node, bound) for early in here.before)
    return here.node in bound and "." not in name and not earlier


def _alone_gives_attribute(index: Index, flow: Flow, name: str, here: Statement) -> bool:
    """The same of an attribute of the objects of a class of the project, whoever gives it."""
    if not _is_of_class(flow, name, here.scope):
        return False
    meant = flow.member(name, here.scope)
    given = [b for b in index.bindings if b.value is not None and _is_of_class(flow, b.target, b.statement.scope)]
    return {b.statement for b in given if flow.member(b.target, b.statement.scope) == meant} == {here}


def _is_of_class(flow: Flow, name: str, scope: Scope) -> bool:
    """Whether a dotted name is an attribute of the objects of a class of the project."""
    return "." in name and flow.member(name, scope)[0].kind == "class"


def _counts_to_the_end(flow: Flow, name: str, here: Statement, loop: EpochLoop) -> bool:
    """Whether what a statement begins is a counter, which an epoch loop knows by the same name."""
    meant = flow.variable(name, here.scope)
    return flow.variable(name, loop.scope) == meant and any(map(increments, flow.bindings_of(meant)))


def _that_decide(
    flow: Flow, value: cst.BaseExpression, item: int | None, asked: list[str]
) -> Iterator[tuple[cst.BaseExpression, str]]:
    """Yield what of a value decides, and the part of that: of what a local function returns, what is asked for.

    Args:
        item: the element that a name gets, None for the whole.
        asked: the parts of it that decide, "" for the whole.
    """
    function = flow.called(value) if isinstance(value, cst.Call) else None
    returned = [element_of(one, item) for one in flow.index.returned(function)]
    for one in returned:
        items = written_items(flow.index, one) if isinstance(one, cst.Dict) else []
        parts = {key[1:-1]: part for key, part in items}
        if isinstance(one, cst.Call) and flow.class_made(one) is None:
            parts |= {arg.keyword.value: arg.value for arg in one.args if arg.keyword is not None}
        for name, _, rest in (part.partition(".") for part in asked):
            if name in parts:
                yield parts[name], rest
            else:
                yield (value, "") if one is None else (one, f"{name}.{rest}".strip("."))
    if not returned:
        yield value, ""


def _within_functions(flow: Flow, asked: list[tuple[Variable, str]]) -> list[tuple[Variable, str]]:
    """Return what decides, and what that is in the functions that return it: `stopper` of `return first, stopper`."""
    found = [*asked]
    for variable, part in found:  # which becomes longer
        for one in flow.sources(variable):
            for told, rest in _that_decide(flow, one.value, one.item, [part]) if one.value is not None else ():
                name = dotted(told) if told is not one.value else None
                inner = (flow.variable(name, flow.index.scope_of(told)), rest) if name is not None else None
                found += [inner] if inner is not None and inner not in found else []
    return found


def _given(index: Index) -> Iterator[tuple[Statement, list[str], cst.BaseExpression, int | None]]:
    """Yield what gives a name or an attribute a value, or is told to take one.

    Yields:
        the statement, the name, the value, and which of its elements the name gets, None for the whole.
    """
    for bound in index.bindings:
        if bound.value is not None:
            yield bound.statement, [bound.target], bound.value, bound.item
    for call in index.calls:
        told = dotted(receiver(call))
        if told is not None and isinstance(index.parents.get(call), cst.Expr):
            for arg in call.args:
                yield index.statement(call), [told], arg.value, None
