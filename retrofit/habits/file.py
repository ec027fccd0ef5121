"""One file as the rules of `retrofit check` see it: its sites, found when a rule first asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from importlib import import_module
from typing import cast

import libcst as cst

from retrofit.habits.kinds import KINDS
from retrofit.history import History
from retrofit.knowledge.kinds import StartsProcesses
from retrofit.survey.backwards import find_backwards
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import find_loops
from retrofit.survey.names import Variable
from retrofit.survey.nodes import dotted, mentions, method_name, receiver
from retrofit.survey.ranks import Ranks, ranks_at
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores import decides
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.loop import Backward, EpochLoop
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.wrappers import find_wrappers


def _is_module(value: cst.BaseExpression | None) -> bool:
    """Whether a value is a wrapper's own model, by its name."""
    return (dotted(value) or "").endswith((".module", "._orig_mod"))


class TrainingFile:
    """A file that uses data parallelism, seen alone, or a whole project as if it were one.

    Args:
        index: that of the file, or of the project. What a file alone imports is not followed: a rule speaks only of
            what it shows itself.
        history: what is on record of the library that grows dendrites, None where no rule is about it.
        module_functions: full names of that library's functions that return the module they are given.
        flow: where the index's values come from, None where it is yet to be made.
    """

    def __init__(
        self,
        index: Index,
        history: History | None = None,
        module_functions: frozenset[str] = frozenset(),
        flow: Flow | None = None,
    ) -> None:
        self.index, self.source = index, index.source
        self.history = history
        self._flow, self._module_functions = flow, module_functions
        self._sites: dict[str, Sequence[Site]] = {}
        self._bindings: dict[tuple[Scope, str], list[Binding]] | None = None

    def sites(self, kind: str) -> Sequence[Site]:
        """Return the sites of one kind, in the order of the file.

        Args:
            kind: one of KINDS, or `call:NAME` for every call of a function whose full name ends with NAME.
        """
        if kind not in self._sites and kind.startswith("call:"):
            self._sites[kind] = self._named(kind.removeprefix("call:"))
        elif kind not in self._sites:
            finder = import_module(f"retrofit.habits.{KINDS[kind]}")
            found = cast("Sequence[Site]", getattr(finder, f"find_{kind.replace('-', '_')}s")(self))
            self._sites[kind] = sorted(found, key=lambda site: self.index.source.span(site.node))
        return self._sites[kind]

    def _named(self, name: str) -> Sequence[Site]:
        from retrofit.habits.sites import Call

        calls = [call for call in self.index.calls if f".{self.index.qualified(call.func)}".endswith(f".{name}")]
        return [Call(node=call, index=self.index, habits=self) for call in calls]

    @cached_property
    def flow(self) -> Flow:
        """Where the values of its names come from."""
        return self._flow or Flow(self.index, self._module_functions)

    @cached_property
    def wrappers(self) -> list[Wrapper]:
        """Every DistributedDataParallel and DataParallel call."""
        return find_wrappers(self.index, self.flow)

    @property
    def ddp(self) -> bool:
        """Whether the file wraps a model in DistributedDataParallel."""
        return any(wrapper.kind == "ddp" for wrapper in self.wrappers)

    @cached_property
    def groups(self) -> list[cst.Call]:
        """The calls of `init_process_group`."""
        return self.calls("torch.distributed.init_process_group")

    @cached_property
    def spawns(self) -> list[cst.Call]:
        """The calls that start the ranks from one process, which is none itself: `mp.spawn(...)`, `mp.Process(...)`."""
        names = self.index.knowledge.last_names(StartsProcesses)
        return [call for call in self.index.calls if (dotted(call.func) or "").rpartition(".")[2] in names]

    @cached_property
    def backwards(self) -> list[Backward]:
        """The backward passes in loops."""
        return find_backwards(self.index, self.flow)

    @cached_property
    def training_loops(self) -> set[Statement]:
        """The loops around backward passes, on all ways by which these are reached."""
        return {loop for one in self.backwards for way in self.flow.enclosing_loops(one.statement) for loop in way}

    @cached_property
    def trains(self) -> bool:
        """Whether the file is a program that trains, and not a module that another one calls."""
        return any(self.flow.uncalled(backward.statement) is None for backward in self.backwards)

    @cached_property
    def loops(self) -> list[EpochLoop]:
        """The epoch loops."""
        return find_loops(self.index, self.flow, self.backwards, partial(decides, self.index, self.flow))

    @cached_property
    def perforated(self) -> bool:
        """Whether the file uses the library that grows dendrites."""
        package = "" if self.history is None else self.history.package
        known = (full for file in self.index.files for full in file.aliases.values())
        imports = (module for file in self.index.files for _, module in file.imports)
        return any(module.partition(".")[0] == package for module in (*known, *imports))

    def imports(self, module: str) -> bool:
        """Whether the file imports a module under a name of its own."""
        return self.index.entry.imported_as(module) is not None

    def calls(self, *names: str) -> list[cst.Call]:
        """Return the calls of functions, given by their full names, in the order of the file."""
        return self.index.calls_to(*names)

    def ranks(self, node: cst.CSTNode) -> Ranks:
        """Return which ranks get to a node: "first", "others", "all" or "unknown"."""
        return ranks_at(self.index, self.flow, self.index.statement(node), self.spawns)

    def value_of(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return the expression that a name stands for where it is given exactly one value, else the node itself."""
        seen = set[Variable]()
        while (name := dotted(node)) is not None:
            variable = self.flow.variable(name, self.index.scope_of(node))
            sources = self.flow.sources(variable)
            value = sources[0].value if len(sources) == 1 and sources[0].item is None else None
            if value is None or variable in seen:
                break
            seen.add(variable)
            node = value
        return node

    def wrapper_of(self, node: cst.BaseExpression) -> Wrapper | None:
        """Return the wrapper that is around the value of an expression, None where none is or it cannot be told.

        In a script that wraps only under a condition (`if distributed:`), the value counts as wrapped: rules speak of
        the run that has several processes. Of several values of a name, the last one before the use counts; a
        parameter is wrapped where every caller's argument is. Where the code itself tells a wrapped value from a bare
        one (`model.module if distributed else model`), it is taken at its word.
        """
        found = self._wrapper_of(node, frozenset())
        return None if found is None or self._told_apart(node) else found

    def _told_apart(self, node: cst.BaseExpression) -> bool:
        """Whether a name stands in one of two branches, and with `.module` in the other."""
        name = dotted(node)
        if name is None:
            return False
        inner: cst.CSTNode = node
        for outer in self.index.ancestors(node):
            if isinstance(outer, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
                break
            branches: list[cst.CSTNode] = []
            if isinstance(outer, cst.IfExp):
                branches = [outer.body, outer.orelse]
            elif isinstance(outer, cst.If):
                branches = [outer.body] if outer.orelse is None else [outer.body, outer.orelse]
            if inner in branches and any(b is not inner and mentions(b, [f"{name}.module"]) for b in branches):
                return True
            inner = outer
        return False

    def _wrapper_of(self, node: cst.BaseExpression, seen: frozenset[object]) -> Wrapper | None:
        if isinstance(node, cst.Call):
            made = next((wrapper for wrapper in self.wrappers if wrapper.node is node), None)
            held = receiver(node) if method_name(node) in self.index.knowledge.module_methods else None
            return made if made is not None or held is None else self._wrapper_of(held, seen)
        name = dotted(node)
        if name is None or name.endswith((".module", "._orig_mod")):
            return None
        use = self.index.statement(node)
        variable = self.flow.variable(name, use.scope)
        if (variable, use.scope) in seen:
            return None
        seen |= {(variable, use.scope)}
        given = self._given(variable)
        here = [b for b in given if b.statement.scope is use.scope and b.statement.order < use.order]
        here = [b for b in here if not exclude_each_other(b.statement, use)]
        last = here[-1] if here else None
        if last is None and (variable[0] is not use.scope or "." in name):
            last = given[-1] if given else None
        if any(_is_module(binding.value) for binding in here or given):
            return None
        if last is not None:
            value = last.value if last.item is None else None
            found = None if value is None else self._wrapping(value, seen)
            return None if found is None or self._runs_before(use.scope, last.statement) else found
        passed = [s for s in self.flow.sources(variable) if s.value is not None]
        every = [None if s.value is None or s.item is not None else self._wrapping(s.value, seen) for s in passed]
        return every[0] if every and all(every) else None

    def _wrapping(self, value: cst.BaseExpression, seen: frozenset[object]) -> Wrapper | None:
        if isinstance(value, cst.IfExp):
            if _is_module(value.body) or _is_module(value.orelse):  # `model.module if distributed else model`
                return None
            return self._wrapping(value.body, seen) or self._wrapping(value.orelse, seen)
        return self._wrapper_of(value, seen)

    def _runs_before(self, function: Scope, statement: Statement) -> bool:
        """Whether another function runs before a statement as well, such as one that `__init__` calls first."""
        if function is statement.scope:
            return False
        calls = [self.index.statement(call) for call in self.flow.callers(function)]
        return any(call.scope is statement.scope and call.order < statement.order for call in calls)

    def _given(self, variable: tuple[Scope, str]) -> list[Binding]:
        """Return what a variable is assigned, in the order of the file."""
        if self._bindings is None:
            self._bindings = {}
            for binding in self.index.bindings:
                owner = self.flow.variable(binding.target, binding.statement.scope)
                self._bindings.setdefault(owner, []).append(binding)
        return self._bindings.get(variable, [])
