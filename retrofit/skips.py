"""Code that a user lets be passed over, by `# retrofit: skip`: where that stands, and what it would answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile

import libcst as cst

from retrofit.errors import Problem
from retrofit.source import Source
from retrofit.survey.index import Index
from retrofit.survey.nodes import SKIP, children, nodes_in, skipping
from retrofit.survey.sites.base import Site
from retrofit.text import comments, whole_lines

_COMMENT = "# retrofit: skip"
#: For so many lines, or groups of them, it is tried what is asked without them, each by a survey.
_MOST = 8


def stray(index: Index) -> Iterator[Problem]:
    """Yield a question for each such comment by which nothing is passed over.

    Args:
        index: the project's files.
    """
    for source in (file.source for file in index.files if SKIP.search(file.source.text)):
        places = filter(None, map(skipping, nodes_in(source.module)))
        used = {source.position(comment)[0] for comment in places}
        for place, column in (one.start for one in comments(source.text) if SKIP.search(one.string)):
            if (line := source.told(place)) not in used:
                message = (
                    f"`{_COMMENT}` passes nothing over here. It stands at the end of a statement's last line, or of \
the line that begins a block, as behind the colon of an `if`."
                )
                yield Problem(source.shown, line, column + 1, "RF046", message)


def offering(
    questions: Sequence[Problem],
    skips: Mapping[Problem, list[list[Site]]],
    asked: Callable[[Mapping[Source, str]], list[Problem]],
    last: Collection[str],
) -> list[Problem]:
    """Return questions, which name the lines without which they are not asked.

    Args:
        questions: what is asked.
        skips: the sites, in groups that go together, without each of which a question may not be asked.
        asked: tells what is asked where some files have other texts.
        last: the rules whose questions come when all others are answered.
    """
    codes = [one.code for one in questions]

    def answers(question: Problem, sites: list[Site]) -> bool:
        left = [one.code for one in asked(_skipping(sites))]
        new = [code for code in left if left.count(code) > codes.count(code)]
        return left.count(question.code) < codes.count(question.code) and all(code in last for code in new)

    def offer(question: Problem) -> Problem:
        groups = {tuple(_places(sites, question)): sites for sites in skips.get(question, ())}
        tried = islice(((named, sites) for named, sites in groups.items() if sites), _MOST)
        places = [" and ".join(named) for named, sites in tried if answers(question, sites)]
        if not places:
            return question
        more = f"What has nothing to do with this training is passed over where its line ends with `{_COMMENT}`"
        return replace(question, message=f"{question.message} {more}: {' or '.join(places)}.")

    return [offer(question) for question in questions]


def _places(sites: list[Site], question: Problem) -> Iterator[str]:
    lines = [(one.file.source, one.file.source.told(_line(one))) for one in sites]
    for source, line in dict.fromkeys(lines):
        yield f"line {line}" + ("" if source.shown == question.file else f" of {source.shown}")


def _line(site: Site) -> int:
    """Return the line at whose end a site's statement is passed over, of a compound one its first block."""
    node, source = site.statement.node, site.file.source
    if isinstance(node, cst.BaseCompoundStatement):
        head = [*takewhile(lambda part: not isinstance(part, cst.BaseSuite), children(node))]
        return source.lines(head[-1])[1] if head else source.lines(node)[0]
    return source.lines(node)[1]


def _skipping(sites: list[Site]) -> dict[Source, str]:
    """Return the files of some sites with the comments by which these are passed over."""
    texts = {one.file.source: whole_lines(one.file.source.text) for one in sites}
    for source, line in {(one.file.source, _line(one)) for one in sites}:
        body = texts[source][line - 1].rstrip("\r\n")
        texts[source][line - 1] = f"{body}  {_COMMENT}{texts[source][line - 1][len(body) :]}"
    return {source: "".join(lines) for source, lines in texts.items()}
