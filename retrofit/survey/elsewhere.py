"""Find out that another script must start the training: this one starts it by a command, or comes to none of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import PurePath

import libcst as cst

from retrofit.knowledge.kinds import ReadsCommandLine, SendsAway
from retrofit.survey.classes import finds_by_name
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, nodes_in
from retrofit.survey.scopes import Scope
from retrofit.survey.sites.call import CallSite
from retrofit.survey.sites.loop import EpochLoop

_SUBPROCESS = ("run", "call", "Popen", "check_call", "check_output")
#: What runs a command, which it gets as a text or as a list of words.
COMMANDS = frozenset({"os.popen", "os.system", *(f"subprocess.{name}" for name in _SUBPROCESS)})


def trained_elsewhere(index: Index, flow: Flow, loops: list[EpochLoop]) -> CallSite | None:
    """Return the call that starts, by its path, the file of epoch loops to which nothing that the script calls leads.

    The path stands in the command, or in what that is made of: `command.format(...)`.
    """
    if not loops or any(flow.uncalled(loop.statement) is None for loop in loops):
        return None
    for call in index.calls:
        if index.qualified(call.func) not in COMMANDS or not call.args:
            continue
        made: list[cst.CSTNode] = [call.args[0].value]
        for one in made:
            made += [node for node in dict.fromkeys(_made_of(index, flow, one)) if node not in made]
        texts = [part.evaluated_value for one in made for part in nodes_in(one) if isinstance(part, cst.SimpleString)]
        words = {PurePath(word) for text in texts if isinstance(text, str) for word in text.split()}
        files = [PurePath(loop.file.source.shown) for loop in loops if loop.file.name]
        if any(file.parts[-len(word.parts) :] == word.parts for word in words if word.parts for file in files):
            return CallSite(node=call, index=index)
    return None


def sent_to_workers(index: Index, flow: Flow, loops: list[EpochLoop]) -> CallSite | None:
    """Return what gives the function that leads to the epoch loops, and that nothing else runs, to a pool of workers.

    Args:
        loops: the epoch loops.
    """
    function = flow.uncalled(loops[0].statement) if loops else None
    sending = [call for call, _ in index.method_calls(*index.knowledge.methods(SendsAway)) if flow.called(call) is None]
    for call in sending if function is not None else ():
        given = [node for arg in call.args for node in nodes_in(arg.value)]
        named = [node for node in given if isinstance(node, (cst.Name, cst.Attribute))]
        if any(flow.defined(node, index.scope_of(call)) is function for node in named):
            return CallSite(node=call, index=index)
    return None


def never_started(index: Index, flow: Flow, loops: list[EpochLoop], reached: Collection[Scope]) -> Scope | None:
    """Return the function that leads to the epoch loops, where no run of the script comes to it; None where one may.

    What may run it unseen is a name made at run time, a text that has its name, a call of a method of its name of an
    object whose class is not seen, and a library that looks for what a module defines, or for the classes that extend
    its own.

    Args:
        loops: the epoch loops.
        reached: the functions that a run may come to.
    """
    function = flow.uncalled(loops[0].statement) if loops else None
    if function is None or any(loop.scope in reached for loop in loops) or finds_by_name(index, reached) or index.late:
        return None
    asking: list[cst.CSTNode] = [
        call for call in index.calls_to(*index.knowledge.named(ReadsCommandLine), "vars") if not call.args
    ]
    asking += [one for one in flow.lookups.nodes if not flow.lookups.definitions(one, index.scope_of(one))]
    if function.holder is not None:
        asking += [call for call, _ in index.method_calls(function.name) if flow.called(call) is None]
    holder = function.enclosing_class
    name = re.compile(rf"\b{(holder or function).name}\b")
    texts = (one for one in index.nodes_of(cst.SimpleString) if not isinstance(index.parents[one], cst.Expr))
    told = (one for one in texts if name.search(one.value))
    if any(index.scope_of(one) in reached for one in (*asking, *told)):
        return None
    bases = flow.lineage(holder) if holder is not None else []
    kept = any(isinstance(one.node, cst.ClassDef) and one.node.keywords for one in bases)  # by a metaclass
    found = holder is not None and flow.root(holder) not in ("", "object", "torch.nn.Module")
    return None if kept or found else function


def _made_of(index: Index, flow: Flow, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield what the names in an expression may be, what is added to them, and what its calls return."""
    for part in nodes_in(node):
        if isinstance(part, cst.Call) and part in index.parents:
            function = flow.called(part)
            yield from index.returned(function) if function is not None else ()
        elif isinstance(part, (cst.Name, cst.Attribute)):
            scope = index.scope_of(part)
            yield from (one.node for one in flow.origins(part, scope) if one.node in index.parents)
            for bound in (*index.bound([dotted(part) or ""], scope), *index.appended):
                walk = bound.statement.node
                if bound.target.partition("[")[0] == dotted(part) and bound.statement.scope is scope:
                    yield from [bound.value] if bound.value is not None else []
                    yield from [walk.iter] if isinstance(walk, cst.For) else []
