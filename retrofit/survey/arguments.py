"""Find argparse parsers, and the names under which the parsed command line is known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set

import libcst as cst

from retrofit.knowledge.kinds import ReadsCommandLine
from retrofit.survey.displays import chosen_of
from retrofit.survey.flow import Flow
from retrofit.survey.holders import ADDING
from retrofit.survey.index import Index
from retrofit.survey.names import Variable
from retrofit.survey.nodes import argument, dotted, guards_main, method_name, names_in, nodes_in, receiver
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.argument import LocalRank, Parser
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.call import CallSite

#: What tells of options, and what makes a text of them.
_TELLING = frozenset(
    {"print", "pprint", "pformat", "info", "debug", "log", "write", "warning", "join", "add_row", "add_text"}
    | {"print_rank_0", "dump", "dumps"}
)
_TEXTS = frozenset(
    {"items", "vars", "sorted", "str", "repr", "format", "len", "get_rank", "ljust", "rjust", "keys", "type"}
)
PARSE_METHODS = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args"})


def _reads(call: cst.Call, flow: Flow) -> bool:
    """Whether a call parses the command line, not a list that stands in the script: `parse_args([])`, `'-a 1'.split()`.

    Nor one that it has under a name, and to which it adds nothing: `main(["--lr", "0.1"])`.
    """
    if method_name(call) not in PARSE_METHODS:
        return False
    given, index = argument(call, "args", 0), flow.index
    if given is None:
        return True
    made = flow.deep_origins(receiver(given) or given, index.scope_of(call))
    if not made or not all(isinstance(one.node, (cst.List, cst.Tuple, cst.SimpleString)) for one in made):
        return True
    if any(index.qualified(part) == "sys.argv" for one in made for part in nodes_in(one.node)):
        return True  # as `[*sys.argv[1:], "--fast"]`
    filled = [one for _, one in index.method_calls(*ADDING)]
    added = [*filled, *(one.target for one in index.nodes_of(cst.AugAssign))]
    return any(not made.isdisjoint(flow.deep_origins(one, index.scope_of(one))) for one in added)


def is_namespace(node: cst.BaseExpression, flow: Flow) -> bool:
    """Whether an expression parses the command line and gives its options, in no object that it is given for them."""
    if not isinstance(node, cst.Call) or method_name(node) not in PARSE_METHODS or flow.called(node) is not None:
        return False
    parser, scope = receiver(node), flow.index.scope_of(node)
    made = [one.node for one in flow.deep_origins(parser, scope)] if parser is not None else []
    names = {flow.index.qualified(one.func) if isinstance(one, cst.Call) else "" for one in made}
    given = argument(node, "namespace", 1) is not None or any(arg.star for arg in node.args)
    return not given and names == {"argparse.ArgumentParser"}


def find_parsers(index: Index, flow: Flow) -> list[Parser]:
    """Return the parsers that the script reads, each with the statement after which an argument can be added.

    None where a library reads the command line as a whole, which would know no option of a parser beside it.
    """
    if any(index.file(call) is index.entry for call in index.calls_to(*index.knowledge.named(ReadsCommandLine))):
        return []
    parsed = {
        origin
        for call, parser in index.method_calls(*PARSE_METHODS)
        if _reads(call, flow)
        for origin in flow.deep_origins(parser, index.scope_of(call))
    }
    found = []
    assigned = {binding.value for binding in index.bindings}
    for call in index.calls:
        if Origin(call) in parsed and index.qualified(call.func).rpartition(".")[2] == "ArgumentParser":
            found += [_parser(index, flow, call)] if call in assigned else []
    return found


def first_reading(index: Index, flow: Flow) -> Statement | None:
    """Return the entry script's own statement that is the first to read the command line, None for none.

    That may be an import of a module that reads it as it is imported, perhaps by another one.
    """
    reading: list[cst.CSTNode] = [call for call, _ in index.method_calls(*PARSE_METHODS) if _reads(call, flow)]
    words = [*index.nodes_of(cst.Attribute), *index.nodes_of(cst.Name)]
    reading += [node for node in words if index.qualified(node) == "sys.argv" and not _is_own_name(index, node)]
    ways = [way for one in reading for way in flow.leading(index.statement(one))]
    early = {index.file_of(way.scope).name for way in ways if way.scope.parent is None} - {index.entry.name}
    while more := {file.name for file in index.files if any(name in early for _, name in file.imports)} - early:
        early |= more
    own = [way.path[0] for way in ways if way.scope is index.scope]
    own += [
        statement.path[0]
        for statement, name in index.entry.imports
        if name in early and statement.scope is index.scope and not f"{index.entry.package}.".startswith(f"{name}.")
    ]
    return min(own, key=lambda way: way.order, default=None)


def _is_own_name(index: Index, words: cst.CSTNode) -> bool:
    """Whether an expression takes the script's name of the command line, or imports that: `sys.argv[0]`."""
    around = index.parents[words]
    part = around.slice[0].slice if isinstance(around, cst.Subscript) else None
    first = isinstance(part, cst.Index) and isinstance(part.value, cst.Integer) and part.value.evaluated_value == 0
    return first or isinstance(around, cst.ImportAlias | cst.AsName)


def _parser(index: Index, flow: Flow, construction: cst.Call) -> Parser:
    made, family = index.statement(construction), _family(index, flow, construction)
    calls = [(call, name) for call, name in index.method_calls(*PARSE_METHODS) if _reads(call, flow)]
    own = [call for call, name in calls if Origin(construction) in flow.deep_origins(name, index.scope_of(call))]
    strict = [call for call in own if method_name(call) != "parse_known_args"]
    ways = [part for call in strict for way in flow.leading(index.statement(call)) for part in way.path]
    runs = [
        part.index for part in ways if part.siblings is made.siblings and not isinstance(part.node, cst.FunctionDef)
    ]
    read = min(runs, default=len(made.siblings))
    last = made
    options: set[str] = set()
    for call, group in index.method_calls("add_argument"):
        held = flow.deep_origins(group, index.scope_of(call))
        if family.isdisjoint(held) or family.isdisjoint(_meant(index, flow, call)):
            continue
        options.update(str(name) for name in spellings(call))
        if Origin(construction) not in held:
            continue
        here = next((part for part in index.statement(call).path[::-1] if part.siblings is made.siblings), None)
        if here is not None and last.index < here.index < read:  # the first reading knows no later option
            last = here
    target = next((b.target for b in index.bindings if b.value is construction), "parser")
    other = [call for call, _ in calls if _of_another(index, flow, call, family)]
    reading = [call for call in own if call not in other]
    parser = Parser(node=last.node, index=index, target=target, options=frozenset(options), reading=reading)
    parser.alone = not any(_whole(call, flow) for call in other)
    parser.strict = any(_whole(call, flow) and index.scope_of(call).parent is None for call in reading)
    elsewhere = [call for call in reading if index.file(call) is not index.entry]
    parser.early = any(index.scope_of(call).parent is None for call in elsewhere)
    parser.own = len(elsewhere) < len(reading)
    return parser


def _whole(call: cst.Call, flow: Flow) -> bool:
    """Whether a reading ends the script at what its parser does not know of all that the user gave."""
    given, index = argument(call, "args", 0), flow.index
    if method_name(call) == "parse_known_args":
        return False
    if given is None:
        return True
    made = [one.node for one in flow.deep_origins(given, index.scope_of(call)) if not isinstance(one.node, cst.Name)]
    return not made or any(index.qualified(part) == "sys.argv" for one in made for part in nodes_in(one))


def _of_another(index: Index, flow: Flow, call: cst.Call, family: set[Origin]) -> bool:
    """Whether a reading may be of a parser that is none of a family, and not made of one: `added = add_to(parser)`."""
    made = [one for one in _meant(index, flow, call) - family if not flow.inside(one)]
    others = [one.node for one in made if isinstance(one.node, cst.Call)]
    given = [(arg.value, index.scope_of(one)) for one in others for arg in one.args]
    return bool(others) and all(family.isdisjoint(flow.deep_origins(value, scope)) for value, scope in given)


def _family(index: Index, flow: Flow, construction: cst.Call) -> set[Origin]:
    """Return a parser, and those whose options it takes over: `ArgumentParser(parents=[common_options()])`."""
    found, waiting = {Origin(construction)}, [construction]
    while waiting:
        call = waiting.pop()
        given = argument(call, "parents", 5)
        parents = [one.value for one in given.elements] if isinstance(given, (cst.List, cst.Tuple)) else []
        made = {origin for one in parents for origin in flow.deep_origins(one, index.scope_of(call))} - found
        found |= made
        waiting += [origin.node for origin in made if isinstance(origin.node, cst.Call)]
    return found


def spellings(call: cst.Call) -> dict[object, cst.SimpleString]:
    """Return the option strings that are given to `add_argument`."""
    given = [arg.value for arg in call.args if arg.keyword is None]
    return {value.evaluated_value: value for value in given if isinstance(value, cst.SimpleString)}


def read_as(call: cst.Call) -> Iterator[str]:
    """Yield the name under which an option that is added to a parser is read, or that a function gets for it."""
    dest, named = argument(call, "dest"), [str(one) for one in spellings(call)]
    if isinstance(dest, cst.SimpleString):
        yield str(dest.evaluated_value)
    elif named:
        plain = [one for one in named if not one.startswith("-")]  # click's own word beside the spellings
        first = next((one for one in (*plain, *named) if one in plain or one.startswith("--")), named[0])
        yield first.lstrip("-").partition("/")[0].replace("-", "_")


def find_local_ranks(index: Index) -> list[LocalRank]:
    """Return the options by which a launcher tells a process its number, whatever parser or group of one has them.

    Their spellings may stand in a list, `Option(["-l", "--local_rank"], default=0)`, out of which a loop adds them.
    """
    spelled = [spellings(call) for call, _ in index.method_calls("add_argument")]
    lists: list[cst.List | cst.Tuple] = [*index.nodes_of(cst.List), *index.nodes_of(cst.Tuple)]
    for node in lists:
        strings = [one.value for one in node.elements if isinstance(one.value, cst.SimpleString)]
        if len(strings) == len(node.elements) and all(str(one.evaluated_value)[:1] == "-" for one in strings):
            spelled.append({one.evaluated_value: one for one in strings})
    hyphened = any("--local-rank" in one for one in spelled)
    found = [one.get("--local_rank") or one.get("--local-rank") for one in spelled]
    return [LocalRank(node=node, index=index, hyphened=hyphened, anchors={"spelling": node}) for node in found if node]


def find_rank_flags(index: Index) -> list[CallSite]:
    """Return absl's flags of that name, where nothing reads the number that launchers give in the environment."""
    calls = [call for call in index.calls if index.qualified(call.func).startswith("absl.flags.DEFINE_")]
    named = [call for call in calls if "local_rank" in spellings(call)]
    read = bool(named) and "LOCAL_RANK" in index.source.words()
    return [] if read else [CallSite(node=call, index=index) for call in named]


def _meant(index: Index, flow: Flow, call: cst.Call) -> Set[Origin]:
    """Return what the name means there that a method is called of: the later one of `config_parser = parser = ...`."""
    here, parser = index.statement(call), receiver(call)
    before = {*here.before}
    named = [
        one for one in index.bindings if one.target == dotted(parser) and not before.isdisjoint(one.statement.path)
    ]
    always = [one.statement.order for one in named if one.statement in before]
    latest = [one for one in named if always and one.statement.order >= max(always)]  # and what blocks may change
    values = [(one.value, one.item) for one in latest if isinstance(one.value, cst.Call)]
    if values and len(values) == len(latest):
        return set(flow.through([made for one, item in values for made in flow.origins(one, here.scope, item)]))
    return flow.deep_origins(parser, here.scope) if parser is not None else set()


class Namespaces:
    """Knows under which name the parsed command line is in scope.

    Args:
        reading: what parses it by the parser that has the two options.
    """

    def __init__(self, index: Index, flow: Flow, reading: Collection[cst.CSTNode]) -> None:
        self._index = index
        self._flow = flow
        self._reading = reading
        self._origins = {
            Origin(call, item)
            for call in index.calls
            if call in reading and not self._is_replaced(index.target_of(call), index.scope_of(call), [call])
            for item in ((0,) if method_name(call) == "parse_known_args" else (None,))
        } | self._returned()
        self._known: dict[Scope, str | None] = {}
        self._spawns = any("multiprocessing" in index.qualified(call.func) for call in index.calls)

    def _returned(self) -> set[Origin]:
        """Calls of local functions that return what they parse."""
        found: set[Origin] = set()
        for node, scope in self._index.returns:
            value = node.value
            if isinstance(value, cst.Call) and method_name(value):
                parses = method_name(value) == "parse_args" and value in self._reading
            else:
                made = [origin.node for origin in self._flow.origins(value, scope)] if value is not None else []
                read = [node for node in made if node in self._reading]
                parses = bool(read) and not self._is_replaced(dotted(value) or "", scope, read)
                parses = parses and not self._is_dict(dotted(value) or "", scope)
            if parses:
                found.update(Origin(call) for call in self._flow.callers(scope))
        return found

    def handed_on(self) -> list[Site]:
        """Return where all options are handed on by their names, or gone through: `main(**vars(args))`."""
        index = self._index
        given = [node for node in index.nodes_of(cst.Arg) if node.star and not self._absorbs(index.parents[node])]
        passed = [*(node.value for node in given), *(node.value for node in index.nodes_of(cst.StarredDictElement))]
        found = [node for node in passed if self._holds_all(node, index.scope_of(node))]
        loops: list[cst.For | cst.CompFor] = [*index.nodes_of(cst.For), *index.nodes_of(cst.CompFor)]
        for loop in loops:
            if self._holds_all(loop.iter, index.scope_of(loop)) and not self._only_tells(loop):
                found.append(loop.iter)
        return [Site(node=node, index=index) for node in found]

    def _holds_all(self, node: cst.BaseExpression, scope: Scope, seen: frozenset[cst.CSTNode] = frozenset()) -> bool:
        """Whether an expression is the namespace as a dict, or that dict's items, keys or values."""
        if node in seen:  # `options = options.copy()` is made of itself
            return False
        seen |= {node}
        held = receiver(node) if method_name(node) in ("items", "keys", "values", "copy") else None
        if held is not None:
            return self._holds_all(held, scope, seen)
        if isinstance(node, cst.Call) and dotted(node.func) in ("dict", "vars", "sorted", "list") and node.args:
            inner = node.args[0].value
            named = dotted(node.func) == "vars"
            return self._is_namespace(inner, scope) if named else self._holds_all(inner, scope, seen)
        if isinstance(node, cst.Attribute) and node.attr.value == "__dict__":
            return self._is_namespace(node.value, scope)
        if not isinstance(node, cst.Name):
            return False
        origins = self._flow.origins(node, scope)
        made = [one.node for one in origins if one.item is None and isinstance(one.node, (cst.Call, cst.Attribute))]
        return any(self._holds_all(one, self._index.scope_of(one), seen) for one in made)

    def _is_namespace(self, node: cst.BaseExpression, scope: Scope) -> bool:
        return not self._origins.isdisjoint(self._flow.deep_origins(node, scope))

    def _absorbs(self, call: cst.CSTNode) -> bool:
        """Whether what is called takes any names and does nothing by them: `SimpleNamespace(**vars(args))`."""
        name = self._index.qualified(call.func).rpartition(".")[2] if isinstance(call, cst.Call) else ""
        return name in ("Namespace", "SimpleNamespace", "dict", "EasyDict", "edict", "print")

    def _only_tells(self, node: cst.For | cst.CompFor) -> bool:
        """Whether a loop over the options only prints them, or writes them down."""
        around: cst.CSTNode = node
        while isinstance(node, cst.CompFor) and not isinstance(around, (cst.Call, cst.BaseStatement)):
            around = self._index.parents[around]
        calls = self._index.calls_in(self._index.statement(around))
        inside = [call for call in calls if call is around or around in self._index.ancestors(call)]
        called = {self._index.source.code(call.func).rpartition(".")[2] for call in inside}
        return bool(called & _TELLING) and called <= _TELLING | _TEXTS

    def name(self, scope: Scope) -> str | None:
        """Return the namespace's name in ``scope``, None where it is not in scope."""
        if scope not in self._known:
            names = self._flow.names_of(self._origins, scope)
            self._known[scope] = next((name for name in names if self._reaches(name, scope)), None)
        return self._known[scope]

    def is_given(self, name: str, scope: Scope) -> bool:
        """Whether a name there is what its function is given, by whatever calls that, or of it."""
        of, plain = self._flow.variable(name.partition(".")[0], scope)
        return plain in of.parameters

    def _reaches(self, name: str, scope: Scope) -> bool:
        """Whether ``name`` is a namespace in every process: spawned ones pass over `if __name__ == "__main__"`."""
        variable = self._flow.variable(name, scope)
        values = [source.value for source in self._flow.sources(variable)]
        if self._is_dict(name, scope):
            return False
        if any(isinstance(value, cst.Subscript) for value in values):
            return False  # a checkpoint's, which may be older than our options
        parsed = [origin.node for origin in self._origins]
        given = [(dotted(one.value) or "", one.scope) for one in self._flow.sources(variable)]  # under that name
        if any(self._is_replaced(*one, parsed) for one in [(name, scope), *given] if one[0]):
            return False
        bindings = self._index.bound([name], variable[0])
        if "." in name and not name.startswith("self."):
            return False
        if name == "_" or (bindings and all(self._may_be_passed_over(b.statement) for b in bindings)):
            return False
        if not self._spawns or variable[0].parent is not None or scope.parent is None:
            return True
        return not all(any(guards_main(part.node) for part in b.statement.path) for b in bindings)

    def _is_dict(self, name: str, scope: Scope, seen: frozenset[Variable] = frozenset()) -> bool:
        """Whether a name may have the options as a dict, also one that a call is given: `args = load(vars(args))`."""
        variable = self._flow.variable(name, scope)
        if variable in seen:
            return False
        for source in self._flow.sources(variable):
            for value in [] if source.value is None else chosen_of(source.value) or [source.value]:
                call = value if isinstance(value, cst.Call) else None
                if call is not None and self._index.qualified(call.func) == "vars":
                    return True
                parts = [arg.value for arg in call.args] if call is not None else [value]
                if any(self._is_dict(dotted(one) or "", source.scope, seen | {variable}) for one in parts):
                    return True
        return False

    def _is_replaced(self, name: str, scope: Scope, parsed: Collection[cst.CSTNode]) -> bool:
        """Whether a name gets an object that is not made of the namespace as well: `args = load(args.config)`."""
        values = [source.value for source in self._flow.sources(self._flow.variable(name, scope))]
        return any(isinstance(one, cst.Call) and one not in parsed and name not in names_in(one) for one in values)

    def _may_be_passed_over(self, statement: Statement) -> bool:
        around = [part.node for part in statement.around if isinstance(part.node, (cst.If, cst.For, cst.While))]
        return not all(map(guards_main, around))
