"""What runs only where the user asks for it: conditions, worked out with the defaults of the options."""

from __future__ import annotations

import ast
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from itertools import product
from typing import Any

import libcst as cst

from retrofit.knowledge.kinds import AddsOption
from retrofit.survey.arguments import read_as, spellings
from retrofit.survey.branches import left_before
from retrofit.survey.conditions import argument_of
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import conjuncts
from retrofit.survey.nodes import COMPARING, argument, dotted, last_name, method_name, names_in, receiver, unquoted
from retrofit.survey.order import runs_always
from retrofit.survey.parameters import default_of
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.settings import given_elsewhere, set_by_name

#: The values that an expression may have; None where they cannot be told.
_Values = list[object] | None
#: A text that gives a setting its value, as hydra's command line takes it.
_OVERRIDES = re.compile(r"\+*(?:\w+\.)*(\w+)=\S*")
#: Some numbers of GPUs that a machine with several has.
SEVERAL = (2, 4, 8)


class Defaults:
    """Knows what conditions are where no option is given.

    Args:
        index: the project's files.
        flow: its values.
        gpus: how many GPUs the machine may have, none where that is not known.
        options: whether anything is known of options; else only what is the same in all runs is left out.
        given: the conditions that are taken to hold, as `holding` tells them: those that lead to the training anyhow.
    """

    def __init__(
        self, index: Index, flow: Flow, gpus: Collection[int] = (), options: bool = True, given: Collection[str] = ()
    ) -> None:
        self._index = index
        self._flow = flow
        self._called: dict[str, _Values] = {}
        if gpus:
            self._called = {"torch.cuda.is_available": [True], "torch.cuda.device_count": [*gpus]}
        self._known = options
        self._given = given
        self._options: dict[str, list[_Values]] = defaultdict(list)
        self._tests: dict[cst.BaseExpression, _Values] = {}
        self._settings = index.settings.values if options else {}
        #: The defaults of options by the functions and parameters that get them, and the full names of others.
        self._parameters: dict[tuple[Scope, str], _Values] = {}
        self._held: set[str] = set()
        self._adding = index.knowledge.named(AddsOption)
        for call in index.calls_to(*self._adding):
            self._add_known(call, self._adding[index.qualified(call.func)])
        for call, _ in index.method_calls("add_argument"):  # whose defaults may be settings
            self._add_option(call)
        for call, _ in index.method_calls("set_defaults"):
            self._add_defaults(call)

    def _add_known(self, call: cst.Call, known: AddsOption) -> None:
        """Take in an option of a library that reads the command line itself."""
        default = self._default_of(call, known) if self._known else None
        around = self._index.parents[self._index.parents[call]]
        for name in read_as(call):
            if isinstance(around, cst.FunctionDef):
                self._parameters[self._index.function_scope(around), name] = default
            elif known.holder:
                self._options[name].append(default)
                self._held.add(f"{known.holder}.{name}")

    def _default_of(self, call: cst.Call, known: AddsOption) -> _Values:
        ((name, position),) = known.default.items()
        given = argument(call, name, position if position >= 0 else None)
        if argument(call, "flag_value") is not None:
            return None  # one of several flags for the same, of which one may be the default
        if given is not None:
            values = self._values(given, self._index.scope_of(call), frozenset())
            kind = dotted(argument(call, "type")) or "str"
            return None if kind != "str" and any(isinstance(value, str) for value in values or ()) else values
        flag = known.flag and self._literal(argument(call, known.flag))
        return [False] if flag == [True] or any("/" in str(one) for one in spellings(call)) else [None]

    def _add_option(self, call: cst.Call) -> None:
        given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        action = (self._literal(given.get("action")) or [""])[0]
        default: _Values = [action == "store_false"] if action in ("store_true", "store_false") else [None]
        if "default" in given:
            default = self._values(given["default"], self._index.scope_of(call), frozenset())
            kind = dotted(given.get("type")) or ""
            if kind != "str" and "type" in given and any(isinstance(value, str) for value in default or ()):
                default = None  # argparse makes something else of the text
        for name in read_as(call):
            self._options[name].append(default if self._known else None)

    def _add_defaults(self, call: cst.Call) -> None:
        """Take in what a parser has for defaults beside those of its options, as all that a file says."""
        for arg in call.args:
            plain = self._known and arg.keyword is not None
            default = self._values(arg.value, self._index.scope_of(call), frozenset()) if plain else None
            for name in [arg.keyword.value] if arg.keyword is not None else [*self._options]:
                self._options[name].append(default)

    def values(self, node: cst.BaseExpression) -> list[object]:
        """Return what an expression may be by default, nothing where that cannot be told."""
        return self._values(node, self._index.scope_of(node), frozenset()) or []

    def leave_out(self, node: cst.CSTNode) -> bool:
        """Whether some code runs only where an option says otherwise than by default."""
        return self._flow.on_every_way(node, lambda here: self._failing(here) is not None)

    def branches(self, node: cst.CSTNode) -> list[tuple[cst.BaseExpression, Statement]]:
        """Return the conditions by which some code is left out, each with the first statement that it keeps from.

        None where it is not left out, or by more than branches of `if`.
        """
        found: dict[cst.BaseExpression, Statement | None] = {}

        def fails(here: cst.CSTNode) -> bool:
            test = self._failing(here)
            if test is not None:
                found[test] = self._first_under(test, here)
            return test is not None

        known = self._flow.on_every_way(node, fails)
        firsts = [(test, first) for test, first in found.items() if first is not None]
        return firsts if known and len(firsts) == len(found) else []

    def _first_under(self, test: cst.BaseExpression, node: cst.CSTNode) -> Statement | None:
        """Return the first statement of the branch of an `if` in which some code stands."""
        whole = self._index.parents[test]
        inside = [one for one in self._index.statement(node).path if whole in self._index.ancestors(one.node)]
        return inside[0].siblings[0] if inside and isinstance(whole, cst.If) else None

    def run(self, node: cst.CSTNode) -> bool:
        """Whether some code surely runs by default, as far as its conditions tell, on one way at least."""
        return not self._flow.on_every_way(node, self._may_fail_around)

    def _may_fail_around(self, node: cst.CSTNode) -> bool:
        """Whether a condition around some code, or one before it by which its function is left, may keep from it."""
        return not all(self._is_sure(*one) or self._is_either_way(*one, node) for one in self._tests_before(node))

    def _tests_before(self, node: cst.CSTNode) -> list[tuple[cst.BaseExpression, bool]]:
        left = [(one.test, False) for one in left_before(self._index.statement(node))]
        return [*self._index.guards(node), *left]

    def _is_either_way(self, test: cst.BaseExpression, holds: bool, node: cst.CSTNode) -> bool:
        """Whether the function that a call runs is surely run also where a condition is otherwise, by another call.

        So it is in `if given: main(given) else: main(usual)`.
        """
        functions = self._flow.run_by(node) if isinstance(node, cst.Call) else []
        shared = self._tests_before(node)  # which are asked about for that call
        for call in self._flow.callers(functions[0]) if len(functions) == 1 else ():
            tests = self._tests_before(call)
            others = [one for one in tests if one not in shared and one[0] is not test]
            if (test, not holds) in tests and all(self._is_sure(*one) for one in others):
                return True
        return False

    def _is_sure(self, test: cst.BaseExpression, holds: bool) -> bool:
        if "__name__" in names_in(test):
            return True  # what is started is the main program
        values = self._values(test, self._index.scope_of(test), frozenset())
        return bool(values) and all(bool(value) is holds for value in values or ())

    def _failing(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """Return a condition around some code, in its function, that does not hold by default."""
        for test, holds in self._index.guards(node):
            if self._given and _told(self._index, test, holds) in self._given:
                continue
            if test not in self._tests:
                self._tests[test] = None  # of itself it tells nothing: what it is about may be set under it
                self._tests[test] = self._values(test, self._index.scope_of(test), frozenset())
            values = self._tests[test]
            if values is not None and not any(bool(value) is holds for value in values):
                return test
        return None

    def _values(self, node: cst.BaseExpression | None, scope: Scope, seen: frozenset[object]) -> _Values:
        """Return what an expression may be by default."""
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            values = self._values(node.expression, scope, seen)
            return None if values is None else [not value for value in values]
        if isinstance(node, cst.BooleanOperation):
            return self._joined(node, scope, seen)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            asked = node.comparisons[0]
            return self._computed(COMPARING.get(type(asked.operator)), [node.left, asked.comparator], scope, seen)
        if isinstance(node, cst.BinaryOperation):
            power = math.pow if isinstance(node.operator, cst.Power) else None
            return self._computed(power, [node.left, node.right], scope, seen)
        if isinstance(node, cst.Call) and dotted(node.func) == "int" and len(node.args) == 1:
            return self._computed(math.trunc, [node.args[0].value], scope, seen)
        if isinstance(node, cst.Call) and (known := self._adding.get(self._index.qualified(node.func))) is not None:
            return self._default_of(node, known)
        if isinstance(node, cst.Call):
            return self._asked(node, scope, seen) if node.args else self._called.get(self._index.qualified(node.func))
        name = dotted(node)
        if node is None or name is None or name in ("True", "False", "None"):
            return self._literal(node)
        if self._is_of_library(name, scope) and self._index.qualified(node) not in self._held:
            return None
        return self._of_variable(name, scope, seen)

    def _of_variable(self, name: str, scope: Scope, seen: frozenset[object]) -> _Values:
        """Return what a variable or an attribute may be: as an option, as settings say, as code sets it."""
        variable = self._flow.variable(name, scope)
        if variable in seen:
            return []
        if variable[1] in variable[0].parameters:
            return self._passed(*variable, seen | {variable})
        sources = self._flow.bindings_of(variable)
        sources = [*sources, *given_elsewhere(self._flow, name, scope)] if self._known else sources
        holder, _, last = name.rpartition(".")
        option = self._given_by_default(holder, last, scope) if holder else []
        if holder not in ("", "self") and last in self._settings:
            option.append(self._configured(holder, last))
        if holder and not option and not self._is_always_set(sources):
            return None
        sources = [b for b in sources if not self.leave_out(b.statement.node)]
        if not all(any(self._index.guards(b.statement.node)) for b in sources):
            option = [values for values in option if values is not None]  # what is given always takes its place
        made = [
            self._values(b.value, b.statement.scope, seen | {variable}) if b.item is None else None for b in sources
        ]
        found = [*option, *made]
        if not found or any(values is None for values in found):
            return None
        return [value for values in found for value in values or ()]

    def _is_always_set(self, sources: Sequence[Binding]) -> bool:
        """Whether code sets an attribute in any case: else it has one that is read, from a file of settings, say."""
        setting = {b.statement.node for b in sources}
        tops = [next(one for one in b.statement.path if one.scope is b.statement.scope) for b in sources]
        return any(runs_always(top.node, setting, leaves=False) for top in tops)

    def _given_by_default(self, holder: str, option: str, scope: Scope) -> list[_Values]:
        """Return the defaults of an option, and None where code may set it by a string, as what a file says."""
        found = [*self._options.get(option, [])]
        given = [self._flow.deep_origins(held, here) for held, here in set_by_name(self._flow, option) if found]
        made = self._flow.deep_origins(cst.parse_expression(holder), scope) if given else set()
        return found if all(made.isdisjoint(one) for one in given) else [*found, None]

    def _configured(self, holder: str, key: str) -> _Values:
        """Return what files of settings say of a key of an object, None where code may give it a value as well."""
        given = self._settings[key] or []
        if key in self._set_by_code:
            return None
        holders = holder.removeprefix("self.").split(".")[:0:-1]  # but for the whole's own name, the last one first
        ways = [zip(holders, reversed(way), strict=False) for way, _ in given]
        alike = all(asked == there for way in ways for asked, there in way)
        return [value for _, value in given] if alike and given else None

    @cached_property
    def _set_by_code(self) -> set[str]:
        """What code gives objects, has in classes, or names in what may give it a value: `train.fp16=true`."""
        index = self._index
        found = set[str]().union(*(one.names | one.inner.keys() for one in index.scopes if one.kind == "class"))
        found.update(re.findall(r"\w+", " ".join(item.target.rpartition("[")[2] for item in index.items)))
        filling = [call for call in index.calls if last_name(call.func) in ("dict", "update")]
        filled = [(b.target.rpartition(".")[2], b.value) for b in index.bindings if "." in b.target]
        filled += [(one.keyword.value, one.value) for call in filling for one in call.args if one.keyword is not None]
        for made in index.nodes_of(cst.Dict):
            keyed = [one for one in made.elements if isinstance(one, cst.DictElement)]
            filled += [(_text(one.key), one.value) for one in keyed]
        found.update(key for key, value in filled if last_name(value) != key)  # else it is only told further
        given = [arg.value for call in index.calls if not self._says(call) for arg in call.args]
        found.update(_text(one).rpartition(".")[2] for one in given)
        texts: list[tuple[cst.CSTNode, str]] = [(one, _text(one)) for one in index.nodes_of(cst.SimpleString)]
        texts += [(one, one.value) for one in index.nodes_of(cst.FormattedStringText)]
        overriding = [(one, match[1]) for one, text in texts if (match := _OVERRIDES.fullmatch(text))]
        return found.union(key for one, key in overriding if not any(map(self._says, index.ancestors(one))))

    def _says(self, node: cst.CSTNode) -> bool:
        """Whether a call makes a message, or tells one."""
        name = last_name(node.func) if isinstance(node, cst.Call) else ""
        return name in ("format", "error") or self._index.knowledge.logs(name)

    def _passed(self, function: Scope, name: str, seen: frozenset[object]) -> _Values:
        """Return what a parameter may be, as far as all calls of its function say it plainly."""
        calls = self._flow.callers(function) if self._known else []
        plain = all(dotted(call.func) and not any(arg.star for arg in call.args) for call in calls)
        command = function in self._flow.commands and self._known
        if not plain or self._index.bound([name], function) or any(map(self._flow.spawns, calls)):
            return None
        if (function, name) in self._parameters:  # what calls give is the command line
            return self._parameters[function, name]
        if not calls and not command:
            return None
        passed = [(argument_of(function, call, name), self._index.scope_of(call)) for call in calls]
        default = default_of(function, name), function.module
        passed += [default] if command else []
        found = [self._values(*(one if one[0] is not None else default), seen) for one in passed]
        return None if None in found else [value for values in found for value in values or ()]

    def _is_of_library(self, name: str, scope: Scope) -> bool:
        """Whether a name is imported, and from none of the project's files."""
        first = name.partition(".")[0]
        here = next((one for one in (scope, *scope.around) if first in one.names), scope.module)
        return first in here.imports and self._index.imported(name, here) is None

    def _asked(self, call: cst.Call, scope: Scope, seen: frozenset[object]) -> _Values:
        """Return what a setting may be that is asked for with a default: `known.get("amp", False)`."""
        held, plain = receiver(call), [arg.value for arg in call.args if arg.keyword is None and not arg.star]
        if not (self._known and method_name(call) == "get" and held is not None and len(plain) == len(call.args) == 2):
            return None
        if self._index.environment_variable(call):
            return None
        written = [one.node for one in self._flow.origins(held, scope) if isinstance(one.node, cst.Dict)]
        pairs = [pair for one in written for pair in one.elements if isinstance(pair, cst.DictElement)]
        code = self._index.source.code
        items = [pair.value for pair in pairs if unquoted(code(pair.key)) == unquoted(code(plain[0]))]
        found = [self._values(one, scope, seen) for one in [*items, plain[1]]]
        return None if None in found else [value for values in found for value in values or ()]

    def _joined(self, node: cst.BooleanOperation, scope: Scope, seen: frozenset[object]) -> _Values:
        left, right = self._values(node.left, scope, seen), self._values(node.right, scope, seen)
        both = isinstance(node.operator, cst.And)
        for values in (left, right):
            if values and all(bool(value) is not both for value in values):
                return [not both]
        if left is None or right is None:
            return None
        return [(a and b) if both else (a or b) for a in left for b in right]

    def _computed(
        self, compute: Callable[..., Any] | None, parts: list[cst.BaseExpression], scope: Scope, seen: frozenset[object]
    ) -> _Values:
        found = [values for part in parts if (values := self._values(part, scope, seen)) is not None]
        if compute is None or len(found) < len(parts):
            return None
        try:
            return [compute(*given) for given in product(*found)]
        except (TypeError, ValueError, OverflowError):  # no numbers, or none that can be
            return None

    def _literal(self, node: cst.BaseExpression | None) -> _Values:
        try:
            return [ast.literal_eval(self._index.source.code(node))] if node is not None else None
        except (ValueError, SyntaxError):
            return None


def holding(flow: Flow, nodes: Collection[cst.CSTNode]) -> set[str]:
    """Return the conditions that hold wherever one of some nodes runs, as they are written: `args.train`, `not (x)`."""
    ways: list[set[str]] = []

    def around(here: cst.CSTNode) -> set[str]:
        tests = [*flow.index.guards(here)]
        tests += [(part, True) for test, holds in tests if holds for part in conjuncts(test)]
        return {_told(flow.index, test, holds) for test, holds in tests}

    def stands(told: str, here: cst.CSTNode) -> bool:
        return told in around(here)

    def note(here: cst.CSTNode) -> bool:
        ways[-1] |= around(here)
        return False

    for node in nodes:
        ways.append(set())
        flow.on_every_way(node, note)  # goes one way; what holds on every one holds on that
        ways[-1] = {one for one in ways[-1] if flow.on_every_way(node, partial(stands, one))}
    return set.intersection(*ways) if ways else set()


def _told(index: Index, test: cst.BaseExpression, holds: bool) -> str:
    return index.source.read(test) if holds else f"not ({index.source.read(test)})"


def _text(node: cst.CSTNode) -> str:
    """Return what a string says, "" for anything else."""
    return str(node.evaluated_value) if isinstance(node, cst.SimpleString) else ""
