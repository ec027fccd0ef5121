"""Apply the rules of the first stage, which bring a script into the form that the other rules know."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from retrofit.errors import Problem
from retrofit.project import Project
from retrofit.proof import prove
from retrofit.rewrite import by_file, crowded, rewriting
from retrofit.rules import Outcome
from retrofit.source import Source
from retrofit.survey.sites import Script
from retrofit.text import split_lines
from retrofit.unfold import unfolded


@dataclass(frozen=True)
class Adopted:
    """What was changed of a script before its other rules saw it.

    Attributes:
        edits: (path, rule, first line, last line) of each change.
        notes: what the user should know.
    """

    edits: tuple[tuple[Path, str, int, int], ...] = ()
    notes: tuple[Problem, ...] = ()


#: What was changed of a script that has nothing in the place of what the recipe writes.
NOTHING = Adopted()


def adopt(project: Project, script: Script, first: Outcome, adopted: Adopted) -> tuple[Project, Adopted]:
    """Return a project as the rules of the first stage leave it, with what they have changed of it.

    Messages go on to name the lines of the files as they are.
    """
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
    return project.with_sources(sources), Adopted(tuple(dict.fromkeys(places)), (*adopted.notes, *first.notes))
