"""Find where a script starts another one by a command, which trains in its place."""

from __future__ import annotations

from pathlib import PurePath

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import nodes_in
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
        made = [call.args[0].value]
        for one in made:
            named = [node for node in nodes_in(one) if isinstance(node, (cst.Name, cst.Attribute))]
            found = (origin.node for node in named for origin in flow.origins(node, index.scope_of(node)))
            made += [node for node in dict.fromkeys(found) if node in index.parents and node not in made]
        texts = [part.evaluated_value for one in made for part in nodes_in(one) if isinstance(part, cst.SimpleString)]
        words = {PurePath(word) for text in texts if isinstance(text, str) for word in text.split()}
        files = [PurePath(loop.file.source.shown) for loop in loops if loop.file.name]
        if any(file.parts[-len(word.parts) :] == word.parts for word in words if word.parts for file in files):
            return CallSite(node=call, index=index)
    return None
