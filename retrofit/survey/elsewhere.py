"""Find where a script starts another one by a command, which trains in its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, nodes_in
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
