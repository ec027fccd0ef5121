"""Recognise libraries that own the training loop or shard the model, which no rewriting of a plain loop covers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import libcst as cst

from retrofit.knowledge import Knowledge
from retrofit.knowledge.kinds import Framework as Library
from retrofit.knowledge.kinds import MakesConfigured, Wraps
from retrofit.survey.defaults import Defaults, holding
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import conjuncts
from retrofit.survey.nodes import dotted, names_in, nodes_in
from retrofit.survey.origins import Origin
from retrofit.survey.ranks import condition
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.framework import Framework

_Use = cst.Call | cst.ClassDef  # a call of what trains in a library, or a class that extends it
_UNEVEN = ("_ddp_params_and_buffers_to_ignore", "add_param_to_skip_allreduce")  # lets parameters differ between ranks

#: What a condition is about that is no option of training: how it is started, and how far it is.
_NO_OPTION = re.compile(
    r"__name__|distributed|is_initialized|is_available|world_size|multi|\bddp\b|parallel|n_?gpus?|num_gpus|device_count"
    r"|(?<![.\w])\w*(epoch|iter|step)(?!\w)|^\W*(True|1)\W*$",
    re.IGNORECASE,
)


def may_wrap(data: bytes, knowledge: Knowledge) -> bool:
    """Whether a file's bytes can hold what wraps a model, imports what does so, or uses one of these libraries."""
    names = knowledge.last_names(Wraps) | knowledge.last_names(MakesConfigured)
    words = {"import_module", "__import__", *_UNEVEN, *names}
    for library in knowledge.of(Library):
        firsts = {module.partition(".")[0] for module in library.modules}
        words |= set(library.parts) if "torch" in firsts else firsts
    return any(word.encode() in data for word in words)


def find_frameworks(
    index: Index,
    flow: Flow,
    reached: Collection[Scope],
    wrapping: Collection[cst.CSTNode] = (),
    loops: Collection[cst.CSTNode] = (),
) -> list[Framework]:
    """Return the first use of each such library in a project that no option keeps from, else the first with its option.

    A library that is imported, and no more than that, counts where the script has no training of its own.

    Args:
        index: the project's files.
        flow: its values.
        reached: the functions and classes that the entry script can come to.
        wrapping: where the model is wrapped; what leads to all of that as well cannot be left out.
        loops: where it is trained. Who calls that, and what else its function uses, need not be seen.
    """
    found: list[Framework] = []
    inevitable = holding(flow, wrapping)
    started = {flow.uncalled(index.statement(one)) for one in (*wrapping, *loops)}
    defaults = Defaults(index, flow, given=inevitable)
    imported = {full.partition(".")[0] for file in index.files for full in file.aliases.values()}
    imported |= {module.partition(".")[0] for file in index.files for _, module in file.imports}
    for library in index.knowledge.of(Library):
        if imported.isdisjoint(module.partition(".")[0] for module in library.modules):
            continue
        name, advice = library.library, library.advice
        imports = _imports(index, library)
        uses = [use for use in _uses(index, library) if _scope(index, use) in reached and not library.engine]
        if uses:
            ways = {} if library.wraps else _ways(index, flow, uses, inevitable)
            always = [use for use, options in ways.items() if not all(options)]
            if library.optional and not always:  # nor what an option leads to by default, or may
                always = [use for use in ways if not defaults.leave_out(use)]
            option = "" if always else _most(ways)
            asked = always or uses
            first = next((use for use in asked if isinstance(use, cst.Call)), asked[0])
            beside = [one.node for one in imports if index.file_of(one.scope) is index.file(first)]
            node = beside[0] if beside and library.owns and not option else first
            site = Framework(node=node, index=index, name=name, advice=advice, option=option)
            calls = [use for use in uses if isinstance(use, cst.Call)] if library.wraps else []
            either = [use for use in calls if any(one.startswith("torch.") for one in index.meanings(use.func))]
            if either:
                site.node = either[0]
                site.advice = "This is its wrapper where it is installed, and else torch's. Import torch's alone."
            site.wraps, site.copies = library.wraps and not either, library.copies
            uncalled = not library.owns and all(_is_uncalled(use, flow, started) for use in uses)
            site.beside = site.wraps or bool(option) or uncalled
            site.uses = [*uses] if option and not (library.copies or library.optional) else []
            site.used = [Site(node=use, index=index) for use in asked]
            found.append(site)
        elif library.owns and not all(_is_tried(statement) for statement in imports):
            found.append(Framework(node=imports[0].node, index=index, name=name, advice=advice, beside=True))
    for attribute in index.attributes:
        name, known = attribute.attr.value, [site.name for site in found]
        if name in _UNEVEN and name not in known and not _only_buffers(index, attribute):
            advice = "Parameters that it leaves out differ between ranks, and a restart has rank 0's alone."
            found.append(Framework(node=attribute, index=index, name=name, advice=advice))
    return found


def _only_buffers(index: Index, attribute: cst.Attribute) -> bool:
    """Whether an assignment names what DistributedDataParallel leaves out, and no parameters, which are trained."""
    assign = index.parents[index.parents[attribute]]
    if not isinstance(assign, cst.Assign):
        return False
    value = assign.value
    if isinstance(value, (cst.ListComp, cst.SetComp)):
        source = value.for_in.iter
        return isinstance(source, cst.Call) and (dotted(source.func) or "").endswith(".named_buffers")
    if not isinstance(value, (cst.List, cst.Set, cst.Tuple)):
        return False
    ends = [_end_of(one.value).rpartition(".")[2] for one in value.elements]
    parameters = {
        binding.target.rpartition(".")[2]
        for binding in index.bindings
        if isinstance(binding.value, cst.Call) and index.qualified(binding.value.func).endswith("Parameter")
    }
    return all(ends) and parameters.union(("weight", "bias")).isdisjoint(ends)


def _end_of(node: cst.BaseExpression) -> str:
    """Return how a string ends, all of a plain one; "" where that is not written down."""
    if isinstance(node, cst.BinaryOperation):
        return _end_of(node.right)
    if isinstance(node, cst.FormattedString):
        last = node.parts[-1] if node.parts else None
        return last.value if isinstance(last, cst.FormattedStringText) else ""
    return str(node.evaluated_value) if isinstance(node, cst.SimpleString) else ""


def _uses(index: Index, library: Library) -> Iterator[_Use]:
    """Yield the calls of what trains in a library, and the classes that extend it."""
    for call in index.calls:
        names = index.meanings(call.func) if library.shadows else [index.qualified(call.func)]
        if any(map(library.trains, names)) and _imported(index, call.func):
            yield call
    for statement in index.statements:
        node = statement.node
        if isinstance(node, cst.ClassDef) and any(library.trains(index.qualified(b.value)) for b in node.bases):
            yield node


def _imports(index: Index, library: Library) -> list[Statement]:
    """Return where a library is imported, an engine with parts where one of these is, or is used as `runner.Runner`."""
    found = [(statement, module) for file in index.files for statement, module in file.imports if library.has(module)]
    if not (library.engine and library.parts):
        return [statement for statement, _ in found]
    named = [
        statement
        for statement, module in found
        for alias in nodes_in(statement.node)
        if isinstance(alias, cst.ImportAlias) and library.trains(f"{module}.{alias.evaluated_name}")
    ]
    return named or [index.statement(use) for use in _uses(index, library)]


def _is_uncalled(use: _Use, flow: Flow, started: Collection[Scope | None] = ()) -> bool:
    """Whether a call stands in a function that nothing was found to call, and that is none of those that train."""
    function = flow.uncalled(flow.index.statement(use)) if isinstance(use, cst.Call) else None
    return function is not None and function not in started


def _imported(index: Index, function: cst.BaseExpression) -> bool:
    return (dotted(function) or "").partition(".")[0] in index.file(function).aliases


def _scope(index: Index, use: _Use) -> Scope:
    """Return what must run for a library to be used: the function that calls it, or the class that extends it."""
    return index.function_scope(use) if isinstance(use, cst.ClassDef) else index.scope_of(use)


def _is_tried(statement: Statement) -> bool:
    """Whether the script also goes on where an import fails."""
    return any(isinstance(part.node, cst.Try) for part in statement.path)


def _ways(index: Index, flow: Flow, uses: list[_Use], inevitable: Collection[str]) -> dict[_Use, list[list[str]]]:
    """Return the conditions under which a library is used, by its uses, of each way to one that runs.

    A class of the project's around a library has methods that nothing calls beside those that are called.

    Args:
        inevitable: the conditions that lead to each wrapper of the model too, which no training can do without.
    """
    found: dict[_Use, list[list[str]]] = {}
    calls = [use for use in uses if isinstance(use, cst.Call)]
    around = {index.scope_of(use).holder for use in calls if not _is_uncalled(use, flow)} - {None}
    for use in uses:
        if isinstance(use, cst.ClassDef):
            opened = index.function_scope(use)
            made = [call for call in index.calls if flow.defined(call.func, index.scope_of(call)) is opened]
            found[use] = [_asked(index, flow, call, {}) for call in made] or [[]]
        elif not (_is_uncalled(use, flow) and index.scope_of(use).holder in around):
            found[use] = [_asked(index, flow, use, {})]
    return {use: [[o for o in way if o not in inevitable] for way in ways] for use, ways in found.items()}


def _most(ways: dict[_Use, list[list[str]]]) -> str:
    """Return of the first way's conditions that of most, "" where there is none."""
    every = [way for found in ways.values() for way in found]
    return max(every[0], key=lambda option: sum(option in way for way in every)) if every else ""


def _chooses(index: Index, test: cst.BaseExpression) -> bool:
    """Whether a condition is about an option of training, as each is that compares it with words: `engine == "ddp"`."""
    words = [one.comparator for one in test.comparisons] if isinstance(test, cst.Comparison) else []
    if isinstance(test, cst.Comparison) and any(isinstance(one, cst.SimpleString) for one in (test.left, *words)):
        return "__name__" not in names_in(test)
    return not _NO_OPTION.search(index.source.read(test))


def _choosing(index: Index, test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return a condition, or the flags beside what is no option in it: the `args.amp` of `distributed and args.amp`."""
    flags = [part for part in conjuncts(test) if dotted(part) is not None]
    return [test] if _chooses(index, test) else flags


def engines(index: Index, made: Collection[Origin]) -> bool:
    """Whether one of some values is made by a library that owns the training loop or shards the model."""
    calls = [one.node for one in made if isinstance(one.node, cst.Call)]
    return any(one.trains(index.qualified(call.func)) for call in calls for one in index.knowledge.of(Library))


def _asked(index: Index, flow: Flow, node: cst.CSTNode, known: dict[Scope, list[str]]) -> list[str]:
    """Return the options' conditions, the outermost first, that alone lead to some code, in its function or its calls.

    Args:
        known: the same of functions, as far as it is told.
    """
    tests = [(test, holds) for test, holds in index.guards(node) if not condition(flow, test)]
    parts = [(part, holds) for test, holds in tests for part in (_choosing(index, test) if holds else [test])]
    codes = [(index.source.read(part), holds) for part, holds in parts if _chooses(index, part)]
    options = [code if holds else f"not ({code})" for code, holds in codes]
    if options:
        return options[::-1]
    scope = index.scope_of(node)
    if scope not in known:
        known[scope] = []  # where it calls itself
        callers = [_asked(index, flow, call, known) for call in flow.callers(scope)]
        known[scope] = callers[0] if callers and all(callers) else []
    return known[scope]
