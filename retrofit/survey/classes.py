"""Tell of which classes that train a run makes objects, and which methods these override."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, last_name, method_name, receiver
from retrofit.survey.order import ways_to
from retrofit.survey.scopes import Scope
from retrofit.survey.sites.call import CallSite
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.trainings import exclude_one_another
from retrofit.survey.wrappers import wrapper_kind

#: What finds a class by a name that is made at run time.
_BY_NAME = frozenset({"globals", "locals", "eval", "exec"})
_SUBCLASSES = frozenset({"__subclasses__", "__init_subclass__"})
#: What is given a class and makes no object of it.
_ASKING = frozenset({"super", "isinstance", "issubclass"})


def finds_by_name(index: Index, scopes: Collection[Scope]) -> bool:
    """Whether some code may find a function or class by a name that is made at run time, or among a class's heirs.

    Args:
        scopes: what holds the code.
    """
    registering = any(one.kind == "class" and not _SUBCLASSES.isdisjoint(one.inner) for one in index.scopes)
    words = (one for one in index.attributes if index.scope_of(one) in scopes)
    asked = (one.attr.value in _SUBCLASSES or index.qualified(one) == "sys.modules" for one in words)
    calls = (call for call in index.calls if index.scope_of(call) in scopes)
    return registering or any(dotted(call.func) in _BY_NAME for call in calls) or any(asked)


class Trainers:
    """The classes that train: that wrap a model or hold a backward pass, or extend one that does.

    Args:
        flow: of the whole project.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        holders = {
            holder
            for call in flow.index.calls
            if method_name(call) == "backward" or wrapper_kind(flow, call)
            if (holder := flow.index.scope_of(call).enclosing_class) is not None
        }
        self._classes = [scope for scope in flow.index.scopes if scope.kind == "class"] if holders else []
        self._training = [one for one in self._classes if not holders.isdisjoint(self._flow.lineage(one))]
        #: Those of which objects are made, as far as names tell: all where a name is made at run time.
        by_name = bool(self._training) and finds_by_name(flow.index, flow.index.scopes)
        self._made = {*self._training} if by_name else set(self._mentioned())

    def named(self, answer: str) -> Scope | None:
        """Return the class that the user's choice of a model names, None for no such: `Trainer.self.model`."""
        named = [one for one in self._training if one in self._made and self._owned(answer, one)]
        return named[0] if len(named) == 1 else None

    def coming_to(self, wrappers: list[Wrapper]) -> Scope | None:
        """Return the class whose objects alone come to some wrappers, and that a run takes in place of its kin.

        Such classes may each build a model of their own for what they inherit; None where there are none.
        """
        flow, made = self._flow, [one for one in self._training if one in self._made]
        coming = {scope.enclosing_class for one in wrappers for scope in ways_to(one.statement, flow)}
        for holder in (one for one in made if one in coming):
            bases = {*self._flow.lineage(holder)}
            kin = [one for one in made if one is not holder and not bases.isdisjoint(self._flow.lineage(one))]
            alone = not any(one in coming or holder in self._flow.lineage(one) for one in kin)
            if kin and alone and all(self._taken_instead(holder, one) for one in kin):
                return holder
        return None

    def _taken_instead(self, first: Scope, second: Scope) -> bool:
        """Whether a run makes objects of one of two classes, as far as branches tell."""
        flow, index = self._flow, self._flow.index
        calls = [
            [CallSite(node=c, index=index) for c in index.calls if flow.class_made(c) is one] for one in (first, second)
        ]
        return all(calls) and all(exclude_one_another(pair, flow) for pair in product(*calls))

    def answers(self, holder: Scope, name: str) -> list[str]:
        """Return what may name a model of the class's objects, the shortest first; nothing where there are none.

        Args:
            holder: the class.
            name: the model's name in its methods.
        """
        return [f"{owner}.{name}" for owner in self._names(holder) if holder in self._made]

    def inherited(self, answer: str, holders: dict[Scope, str]) -> str:
        """Return a choice of a model as one by the class that wraps it for the class that was chosen.

        Args:
            answer: the choice.
            holders: the classes that wrap a model, with its name there.
        """
        chosen = self.named(answer)
        above = self._flow.lineage(chosen) if chosen is not None else []
        name = self._owned(answer, chosen) if chosen is not None else ""
        return next((f"{self._names(one)[-1]}.{name}" for one in above if holders.get(one) == name), answer)

    def left_out(self, chosen: Scope | None) -> set[Scope]:
        """Return the classes that train and of which no object is made, and the methods that all objects override.

        Args:
            chosen: the class that the user chooses, None for none: no objects are made of those that have a base class
                in common with it.
        """
        made = self._made
        if chosen is not None:
            kin = {*self._flow.lineage(chosen)}
            others = [one for one in made if one not in self._training or kin.isdisjoint(self._flow.lineage(one))]
            made = {*others, chosen}
        training = [one for one in self._training if one in made]
        needed = {one for holder in made for one in self._flow.lineage(holder)}
        gone = {one for one in self._training if one not in needed}
        idle: dict[Scope, Scope] = {}
        for holder in {one for trainer in training for one in self._flow.lineage(trainer)}:
            heirs = [one for one in made if holder in self._flow.lineage(one)]
            for name, method in holder.inner.items():
                taken = {next(one for one in self._flow.lineage(heir) if name in one.inner) for heir in heirs}
                if holder not in taken:
                    idle[method] = holder
        while run := [one for one, holder in idle.items() if self._named_above(one, holder, made, gone | idle.keys())]:
            idle = {one: holder for one, holder in idle.items() if one not in run}
        gone |= idle.keys()
        return {scope for scope in self._flow.index.scopes if not gone.isdisjoint([scope, *scope.around])}

    def _names(self, holder: Scope) -> list[str]:
        return [holder.name, f"{self._flow.index.file_of(holder).source.shown}:{holder.name}"]

    def _owned(self, answer: str, holder: Scope) -> str:
        """Return what a choice of a model names in a class, "" where it names nothing of it."""
        return next((answer[len(one) + 1 :] for one in self._names(holder) if answer.startswith(f"{one}.")), "")

    def _mentioned(self) -> Iterator[Scope]:
        """Yield the classes that code names otherwise than to extend them or to ask for them, and registered ones.

        Of those that are looked up by a name made at run time, they are the ones that are there, but for the abstract.
        """
        index, lookups = self._flow.index, self._flow.lookups
        looked_up = {one: None for node in lookups.nodes for one in lookups.definitions(node, index.scope_of(node))}
        yield from (one for one in looked_up if not self._is_abstract(one))
        known = {one.name for one in self._classes}
        imported = [item for file in index.files for item in file.aliases.items()]  # and one of several by a choice
        imported += [(n, full) for scope in index.scopes for n, fulls in scope.imports.items() for full in fulls]
        known |= {name for name, full in imported if full.rpartition(".")[2] in known}
        named: list[cst.BaseExpression] = [node for node in index.nodes_of(cst.Name) if node.value in known]
        named += [node for node in index.nodes_of(cst.Attribute) if node.attr.value in known]
        for node in named:
            scope = index.scope_of(node)
            if index.holds(scope) and not self._only_asks(node):
                found = self._flow.defined(node, scope)
                inside = scope.enclosing_class
                for one in [found] if found is not None else self._flow.choices.of(node, scope):
                    if one.kind == "class" and (inside is None or one not in self._flow.lineage(inside)):
                        yield one
        yield from (one for one in self._classes if isinstance(one.node, cst.ClassDef) and one.node.decorators)

    def _is_abstract(self, holder: Scope) -> bool:
        """Whether a class calls methods of its objects that only the classes have that extend it."""
        index, lineage = self._flow.index, self._flow.lineage(holder)
        heirs = [one for one in self._classes if one is not holder and holder in self._flow.lineage(one)]
        theirs = {name for one in heirs for name in one.inner}
        methods = {name: inner for one in reversed(lineage) for name, inner in one.inner.items()}
        written = {name for name, one in methods.items() if one not in index.refusing}
        called = [call.func for call in index.calls if index.scope_of(call).enclosing_class in lineage]
        own = {one.attr.value for one in called if isinstance(one, cst.Attribute) and dotted(one.value) == "self"}
        return not theirs.isdisjoint(own - written)

    def _only_asks(self, node: cst.CSTNode) -> bool:
        """Whether a class is only extended where it is named, asked for, or lends a method: `Base.__init__(self)`."""
        index = self._flow.index
        for around in index.ancestors(node):
            if isinstance(around, cst.ClassDef):
                return True
            if isinstance(around, cst.BaseStatement):
                break
            if isinstance(around, cst.Call):
                lent = receiver(around) is node and around.args
                return bool(lent and dotted(around.args[0].value) == "self") or dotted(around.func) in _ASKING
        return False

    def _named_above(self, method: Scope, holder: Scope, made: set[Scope], gone: set[Scope]) -> bool:
        """Whether code that may run names a method as that of a base class: `super().train()`, `Base.train(self)`.

        Args:
            holder: the class of the method.
            made: the classes of which objects are made.
            gone: what does not run.
        """
        index, name = self._flow.index, method.name
        for node in (one for one in index.attributes if one.attr.value == name):
            scope = index.scope_of(node)
            if not gone.isdisjoint([scope, *scope.around]):
                continue
            owner, inside = node.value, scope.enclosing_class
            if not isinstance(owner, cst.Call) and last_name(owner) == holder.name:
                return True
            if isinstance(owner, cst.Call) and last_name(owner.func) == "super" and inside is not None:
                above = [line[line.index(inside) + 1 :] for line in map(self._flow.lineage, made) if inside in line]
                if any(next((one for one in line if name in one.inner), None) is holder for line in above):
                    return True
        return False
