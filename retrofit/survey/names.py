"""What a name of the project means: which variable, function or class it is, and what variables are given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from retrofit.survey.branches import exclude_each_other
from retrofit.survey.configured import configured
from retrofit.survey.displays import chosen_of
from retrofit.survey.index import Index
from retrofit.survey.nodes import attribute_asked, dotted, last_name
from retrofit.survey.scopes import Binding, Scope

Variable = tuple[Scope, str]

#: What gives classes nothing but the parameters of their types.
_TYPING = frozenset(
    f"{module}.{name}" for module in ("typing", "typing_extensions") for name in ("Generic", "Protocol")
)


@dataclass(frozen=True, eq=False)
class Source:
    """One way in which a variable gets its value.

    Attributes:
        value: the expression that gives it, None where it is none of the project's.
        scope: the function that this stands in.
        item: which item of what it makes is meant, None for all of it.
        place: which item of the variable it is, as of `*args`, None where it is all of it.
    """

    value: cst.BaseExpression | None
    scope: Scope
    item: int | None = None
    place: int | None = None


def decorators(scope: Scope) -> set[str]:
    """Return the last names of what decorates a function."""
    nodes = scope.node.decorators if isinstance(scope.node, cst.FunctionDef) else ()
    return {last_name(one.decorator) for one in nodes}


class Names:
    """Tells what the names of a project mean.

    Args:
        index: its files.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self._configured = configured(index)
        self._lineages: dict[Scope, list[Scope]] = {}
        self._variables: dict[tuple[str, Scope], Variable] = {}
        self._classes_with: dict[str, list[Scope]] = defaultdict(list)
        for scope in index.scopes:
            for name in scope.inner if scope.kind == "class" else ():
                self._classes_with[name].append(scope)
        #: Methods that are read as attributes, or set as such.
        self._properties = {s for s in index.scopes if decorators(s) & {"property", "cached_property", "setter"}}
        self._sources: dict[Variable, list[Source]] = defaultdict(list)
        self._bindings: dict[Variable, list[Binding]] = defaultdict(list)
        for binding in index.bindings:
            variable = self.variable(binding.target, binding.statement.scope)
            self._bindings[variable].append(binding)
            self._sources[variable].append(Source(binding.value, binding.statement.scope, binding.item))

    def variable(self, name: str, scope: Scope) -> Variable:
        """Return the variable that ``name`` means in ``scope``, by Python's scoping rules.

        Dotted names are variables of their own; `self.x` belongs to the class, and what is imported from another file
        of the project to that file.
        """
        if (name, scope) not in self._variables:
            self._variables[name, scope] = self._variable(name, scope)
        return self._variables[name, scope]

    def _variable(self, name: str, scope: Scope) -> Variable:
        first = name.partition(".")[0]
        if first == scope.own and name != first:
            holder = scope.enclosing_class
            return (scope if holder is None else self.family(holder), f"self{name.removeprefix(first)}")
        for here in scope.searched:
            if first in here.names and first not in here.outer:
                return self.index.imported(name, here) or (here, name)
        return self.index.imported(name, scope.module) or (scope.module, name)

    def sources(self, variable: Variable) -> list[Source]:
        """Return every value that ``variable`` is given anywhere."""
        return self._sources.get(variable, [])

    def bindings_of(self, variable: Variable) -> list[Binding]:
        """Return the assignments that give ``variable`` a value, in the order of the files."""
        return self._bindings.get(variable, [])

    def defined(self, node: cst.BaseExpression, scope: Scope) -> Scope | None:
        """Return the local function or class that a name means in ``scope``, or that settings name for a call of it."""
        if (told := self._configured.get(node)) is not None:
            return told
        if isinstance(node, cst.Call) and (asked := attribute_asked(node)):
            node = cst.Attribute(node.args[0].value, cst.Name(asked))
        if isinstance(node, cst.Subscript):
            meant = self.defined(node.value, scope)
            return meant if meant is not None and self._is_generic(meant) else None
        name = dotted(node)
        if name is None:
            holder, name = self.index.member_imported(node) or (scope, "")
            return holder.inner.get(name) or self._of_base(node, scope)
        own, _, method = name.partition(".")
        if own == scope.own and method and "." not in method and scope.enclosing_class is not None:
            return self._method(scope.enclosing_class, method)
        holder, name = self.variable(name, scope)
        owner = holder.inner.get(name.rpartition(".")[0])
        if owner is not None and owner.kind == "class":
            return self._method(owner, name.rpartition(".")[2])
        return self.standing(holder.inner[name], node) if name in holder.inner else None

    def _function(self, node: cst.BaseExpression, scope: Scope) -> Scope | None:
        found = self.defined(node, scope)
        if found in self._properties:
            return None  # what it returns is called
        return self.maker(found) if found is not None and found.kind == "class" else found

    def is_configured(self, node: cst.BaseExpression) -> bool:
        """Whether a file of settings tells what is called so."""
        return node in self._configured

    def arguments(self, call: cst.Call) -> Sequence[cst.Arg]:
        """Return what a call gives the function that it runs: of settings, which come first, what is in them."""
        if self._configured.get(call.func) is None:
            return call.args
        return [*call.args[1:], cst.Arg(call.args[0].value, star="**")]

    def maker(self, holder: Scope) -> Scope | None:
        """Return the method of a class that a call of it runs: `__init__`, or the `__new__` of one that has none."""
        return self._method(holder, "__init__") or self._method(holder, "__new__")

    def standing(self, found: Scope, node: cst.BaseExpression | None) -> Scope:
        """Return the function or class that a name means where it is read, of those that branches define by it."""
        here = self.index.statement(node) if node is not None and node in self.index.parents else None
        while here and found.earlier and exclude_each_other(self.index.statement(found.node), here):
            found = found.earlier
        return found

    def class_made(self, node: cst.CSTNode) -> Scope | None:
        """Return the local class of which a call makes an object."""
        found = self.defined(node.func, self.index.scope_of(node)) if isinstance(node, cst.Call) else None
        return found if found is not None and found.kind == "class" else None

    def _of_base(self, node: cst.BaseExpression, scope: Scope) -> Scope | None:
        """Return the base class's method that `super().name` means."""
        holder = scope.enclosing_class
        if holder is None or not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Call):
            return None
        if dotted(node.value.func) != "super":
            return None
        return next((c.inner[node.attr.value] for c in self.lineage(holder)[1:] if node.attr.value in c.inner), None)

    def bases(self, holder: Scope) -> list[cst.BaseExpression]:
        """Return what a class extends, `Base` for `Base[M]`, without `Generic[M]`, which gives it nothing."""
        nodes = holder.node.bases if isinstance(holder.node, cst.ClassDef) else ()
        found = [base.value.value if isinstance(base.value, cst.Subscript) else base.value for base in nodes]
        return [one for one in found if self.index.qualified(one) not in _TYPING]

    def _is_generic(self, holder: Scope) -> bool:
        """Whether `Class[...]` is the class, and no item of it: it extends one that is written so."""
        nodes = [one.node for one in self.lineage(holder)]
        return any(isinstance(b.value, cst.Subscript) for n in nodes if isinstance(n, cst.ClassDef) for b in n.bases)

    def _bases_here(self, holder: Scope) -> list[Scope | None]:
        """Return the local classes that a class extends, None for each other one."""
        found = [self.defined(base, holder.parent or holder) for base in self.bases(holder)]
        return [one if one is not None and one.kind == "class" else None for one in found]

    def lineage(self, holder: Scope) -> list[Scope]:
        """Return a class and its local base classes, in the order in which a method is looked for in them."""
        if holder not in self._lineages:
            self._lineages[holder] = [holder]  # one that extends a class of its own name
            above = [one for base in self._bases_here(holder) if base is not None for one in self.lineage(base)]
            # A common base comes after all that extend it.
            self._lineages[holder] = [*dict.fromkeys([*reversed(above), holder])][::-1]
        return self._lineages[holder]

    def family(self, holder: Scope) -> Scope:
        """Return the class that stands for all whose objects share their attributes: what extend one another."""
        return self._families.get(holder, holder)

    @cached_property
    def _families(self) -> dict[Scope, Scope]:
        """The last of the first bases of each class.

        What is only mixed in belongs to what it is mixed into, where that is one family: no class that something else
        begins with, as objects of their own have attributes of their own.
        """
        bases = {one: self._bases_here(one) for one in self.index.scopes if one.kind == "class"}
        above = {one: found[0] for one, found in bases.items() if found and found[0] is not None}
        mixed = defaultdict[Scope, list[Scope]](list)
        for heir, found in bases.items():
            for base in filter(None, found[1:]):
                mixed[base].append(heir)

        def last(one: Scope) -> Scope:
            seen = dict.fromkeys([one])
            while (base := above.get(one)) is not None and base not in seen:
                seen[one := base] = None
            return one

        extended = {*above.values(), *mixed}
        beginning = {last(one) for one in bases if one not in extended}
        for base, heirs in mixed.items():
            into = {last(heir) for heir in heirs} - {last(base)}
            if len(into) == 1 and last(base) not in beginning:
                above[last(base)] = into.pop()
        return {one: last(one) for one in bases}

    def root(self, holder: Scope) -> str:
        """Return the full name of the first class beyond the project that a class of the project extends, or ""."""
        above = (zip(self.bases(one), self._bases_here(one), strict=True) for one in self.lineage(holder))
        return next((self.index.qualified(base) for bases in above for base, here in bases if here is None), "")

    def _method(self, holder: Scope, name: str) -> Scope | None:
        """Return a method of a class: its own, an inherited one, or the one that its only subclass has for it."""
        found = next((c.inner[name] for c in self.lineage(holder) if name in c.inner), None)
        if found is not None and found not in self.index.refusing:
            return found
        heirs = [c for c in self._classes_with[name] if c is not holder and holder in self.lineage(c)]
        return heirs[0].inner[name] if len(heirs) == 1 else found

    def _gives_first(self, call: cst.Call) -> bool:
        """Whether a call gives its first argument as it is called with more: a partial, or a recipe's function."""
        return self.index.qualified(call.func) == "functools.partial" or self.index.is_provided(call.func)

    def meanings(
        self,
        node: cst.BaseExpression | None,
        scope: Scope,
        given: tuple[cst.Arg, ...] = (),
        seen: frozenset[Variable] = frozenset(),
        done: set[object] | None = None,
    ) -> Iterator[tuple[str, tuple[cst.Arg, ...]]]:
        """Yield the full names that a class or function may have, through variables, conditions, dicts and partials.

        Each comes with the arguments that partials give it. A name is empty for what has none.

        Args:
            node: the expression.
            scope: the function that it stands in.
            given: the arguments that partials around it give.
            seen: the variables on the way to it, none of which is followed again.
            done: the variables that were followed on any way, with what they were given: they say nothing new.
        """
        name, done = dotted(node), set() if done is None else done
        if isinstance(node, cst.Dict):
            for element in node.elements:
                yield from self.meanings(element.value, scope, given, seen, done)
        elif isinstance(node, cst.Subscript):
            yield from self.meanings(node.value, scope, given, seen, done)
        elif chosen := chosen_of(node):
            for one in chosen:
                yield from self.meanings(one, scope, given, seen, done)
        elif isinstance(node, cst.Call) and node.args and self._gives_first(node):
            yield from self.meanings(node.args[0].value, scope, (*given, *node.args[1:]), seen, done)
        elif node is None or name is None:
            yield "", given
        else:
            variable, full = self.variable(name, scope), self.index.qualified(node)
            sources = () if full.startswith("torch.") else self.sources(variable)
            known = variable in seen or (variable, given) in done
            done.add((variable, given))
            for source in () if known else sources:
                yield from self.meanings(source.value, source.scope, given, seen | {variable}, done)
            if not sources:
                yield full, given
