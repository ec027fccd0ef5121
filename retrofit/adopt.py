"""Apply the rules of the first stages, which bring a script into the form that the other rules know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

from retrofit.errors import EngineError, Problem
from retrofit.evaluate import Outcome
from retrofit.project import Project
from retrofit.proof import prove
from retrofit.rewrite import by_file, crowded, rewriting
from retrofit.source import Source
from retrofit.survey.sites.script import Script
from retrofit.text import split_lines
from retrofit.unfold import unfolded

#: One turn may show what the next one changes, where a name stands in another; more than these are a circle.
_TURNS = 9


@dataclass(frozen=True)
class Adopted:
    """What was changed of a script before its other rules saw it.

    Attributes:
        edits: (path, rule, first line, last line) of each change.
        notes: what the user should know.
        turns: how often the script was changed so.
    """

    edits: tuple[tuple[Path, str, int, int], ...] = ()
    notes: tuple[Problem, ...] = ()
    turns: int = 0

    def noting(self, notes: Iterable[Problem]) -> Adopted:
        """Return the same with further notes, each once."""
        return replace(self, notes=tuple(dict.fromkeys([*self.notes, *notes])))


#: What was changed of a script that has nothing in the place of what the recipe writes.
NOTHING = Adopted()


def adopt(project: Project, script: Script, first: Outcome, adopted: Adopted) -> tuple[Project, Adopted]:
    """Return a project as the rules of one of the first stages leave it, with what they have changed of it.

    Messages go on to name the lines of the files as they are.

    Raises:
        EngineError: a rewriting failed its proofs, or the rules find something to change again and again.
    """
    if adopted.turns > _TURNS:
        raise EngineError(f"{project.entry.shown}: what was taken out of it is still there")
    edited = by_file(script.index, first.edits)
    shared = {file.source: nodes for file, mine in edited.items() if (nodes := crowded(script.index, mine))}
    if shared:
        return project.with_sources({source: unfolded(source, nodes) for source, nodes in shared.items()}), adopted
    sources: dict[Source, Source] = {}
    places = list(adopted.edits)
    for file, mine in edited.items():
        text = rewriting(script.index, mine, file).text
        prove(file.source, mine, text)
        # Without their indentation: what stood under a condition stands alone now.
        old, new = ([line.strip() for line in split_lines(one)] for one in (file.source.text, text))
        lines: dict[int, int] = {}
        for _, start, end, first_new, end_new in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            for number in range(first_new, end_new):
                lines[number + 1] = file.source.told(min(start + number - first_new, max(start, end - 1)) + 1)
        sources[file.source] = file.source.relaid(text, lines)
        for edit in mine:
            begin, last = file.source.lines(edit.node)
            places.append((file.source.path, edit.code, file.source.told(begin), file.source.told(last)))
    return project.with_sources(sources), replace(adopted, edits=tuple(dict.fromkeys(places)), turns=adopted.turns + 1)
