"""Prove a rewritten file before it is written."""

from __future__ import annotations

import ast
import builtins
import symtable
import warnings
from collections.abc import Iterable, Iterator, Sequence
from tokenize import TokenInfo

import libcst as cst

from retrofit.assigned import unassigned, unassigned_names
from retrofit.edits import Edit
from retrofit.errors import EngineError, Problem, UserError
from retrofit.rewrite import Rewriting
from retrofit.source import Source
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, leaves, names_in
from retrofit.survey.order import always_leaves
from retrofit.survey.scopes import File, Statement
from retrofit.text import comments, nodes_of, parsed, split_lines

#: The kinds of edits after which code that was there may run no longer.
_TAKING = ("replace", "guard", "remove", "take-out")


def prove(source: Source, edits: Sequence[Edit], text: str) -> None:
    """Check that a rewriting is sound.

    It must compile, and hold every line outside the edited statements, in order, and every comment but those in removed
    statements. Blank lines beside a removed statement may go. A name that a function has from outside must not become
    its own.

    Args:
        source: the file before.
        edits: what was applied to it.
        text: the file after.

    Raises:
        EngineError: it is not; nothing may be written.
        UserError: only a comment would be lost, for which there is no place in the new code.
    """
    name = source.shown
    if not _compiles(text, name):
        raise EngineError(f"{name}: the rewritten file does not compile")
    taken = _taken_names(source.text, text, name)
    if taken:
        raise EngineError(f"{name}: the rewriting makes {', '.join(taken)} local names")
    kept = _untouched_lines(source, edits)
    if not _in_order(kept, split_lines(text)):
        raise EngineError(f"{name}: the rewriting changes lines that it was not asked to change")
    lost = _lost_comment(source, edits, text)
    if lost is not None:
        message = "stands in code that is rewritten, and would be lost. Put it on a line of its own, then run again."
        raise UserError(Problem(name, lost.start[0], lost.start[1] + 1, "RF037", f"`{lost.string}` {message}"))


def without_value(index: Index, file: File, written: Rewriting) -> Iterator[Problem]:
    """Yield a question for each name that new code reads and that may have no value there.

    What the code in its place read as well is passed over.

    Args:
        index: the project's files.
        file: the file.
        written: what becomes of it, as long as that compiles.
    """
    if not _compiles(written.text, file.source.shown):
        return  # which is told as a mistake of ours
    told: set[tuple[str, cst.CSTNode]] = set()
    for offset in unassigned(written.text, written.names):
        name, edit = written.names[offset]
        scope = index.scope_of(edit.node)
        read = edit.node if edit.kind in ("replace", "set-keyword") else None
        if read is None and not scope.binds(name):
            read = scope.node  # what is known nowhere, the script knows from elsewhere, if it reads it itself
        known = (read is not None and name in _roots(read)) or _reads_anyway(index, name, edit)
        if (name, edit.node) not in told and not known:
            told.add((name, edit.node))
            line, column = file.source.position(edit.node)
            yield Problem(file.source.shown, line, column, edit.code, _why(index, name, edit))


def left_without_value(index: Index, file: File, edits: Sequence[Edit], written: Rewriting) -> Iterator[Problem]:
    """Yield a question for each name that a line of the script reads, and that loses its value there to an edit.

    That is so where what gave it one goes, or runs no longer in each round.

    Args:
        index: the project's files.
        file: the file.
        edits: what is applied to it.
        written: what becomes of it, as long as that compiles.
    """
    given: dict[str, Edit] = {}
    for edit in edits:
        if edit.kind in _TAKING and edit.node in index.parents and not isinstance(edit.node, cst.BaseExpression):
            here = index.statement(edit.node)
            last = here if edit.last is None else index.statement(edit.last)
            taken = {here, *(one for one in here.following if one.order <= last.order)}
            staying = always_leaves(here)  # where it left before, all that follows runs now
            for bound in index.bindings:
                if (staying and bound.statement.scope is here.scope) or not taken.isdisjoint(bound.statement.path):
                    given.setdefault(bound.target, edit)
    for name, edit in _losing(given, file, written):
        line, column = file.source.position(edit.node)
        staying = always_leaves(index.statement(edit.node))
        why = "the script no longer leaves" if staying else f"what gives `{name}` its value no longer runs"
        message = (
            f"{why} here at each start, but what comes later reads `{name}` at all of them. Give it a value before, \
on every way there."
        )
        yield Problem(file.source.shown, line, column, edit.code, message)


def passed_over(index: Index, file: File, edits: Sequence[Edit], written: Rewriting) -> Iterator[Problem]:
    """Yield a question for each name that later code reads, and that has no value where new code leaves a loop.

    That is so where a turn of the loop gives it one only after that, as the first turn may be left there.

    Args:
        index: the project's files.
        file: the file.
        edits: what is applied to it.
        written: what becomes of it, as long as that compiles.
    """
    given: dict[str, Edit] = {}
    for edit in edits:
        if edit.kind in ("insert-before", "insert-after") and not edit.verbatim and _leaves_loop(edit.text):
            here = index.statement(edit.node)
            around = next((one for one in here.around if isinstance(one.node, (cst.For, cst.While))), None)
            for bound in index.bindings if around is not None else ():
                if around in bound.statement.path and bound.statement.order > here.order:
                    given.setdefault(bound.target, edit)
    for name, edit in _losing(given, file, written, leaving=True):
        line, column = file.source.position(edit.node)
        message = (
            f"the loop is left here once training is complete, which may be in its first turn, but what comes later \
reads `{name}`, which a turn gives its value only after this place. Give it a value before the loop."
        )
        yield Problem(file.source.shown, line, column, edit.code, message)


def _losing(
    given: dict[str, Edit], file: File, written: Rewriting, leaving: bool = False
) -> Iterator[tuple[str, Edit]]:
    """Yield those of some names, with their edits, that have a value wherever the file reads them, and have it no more.

    Args:
        given: the names, with the edits that may take their values.
        file: the file.
        written: what becomes of it; nothing is told where that does not compile.
        leaving: whether it is new code that leaves a loop which takes them.
    """
    if given and _compiles(written.text, file.source.shown):
        left = unassigned_names(written.text, given, written.names if leaving else None)
        lost = left and left - unassigned_names(file.source.text, given, () if leaving else None)
        yield from ((name, given[name]) for name in sorted(lost))


def _leaves_loop(text: str) -> bool:
    """Whether new code leaves the loop around its place."""
    return any(isinstance(node, ast.Break) for node in nodes_of(parsed(text)))


def _reads_anyway(index: Index, name: str, edit: Edit) -> bool:
    """Whether the statements that run next read a name themselves: where it has no value, the script ends there."""
    statement = index.statement(edit.node)
    for later in [*([statement] if edit.kind == "insert-before" else []), *_running_next(statement)]:
        if _is_read_in_turns(index, name, later):
            return True
        if not isinstance(later.node, cst.SimpleStatementLine):
            if isinstance(later.node, cst.If) and _is_read_or_fails(index, name, later.node):
                return True
            if _ends_or_gives(index, name, later):
                return False
            continue
        if _is_read_by(name, later.node):
            return True
        if leaves(later.node) or any(one.statement is later for one in index.bound([name], later.scope)):
            return False
    return False


def _is_read_by(name: str, line: cst.SimpleStatementLine) -> bool:
    values = [small.value if isinstance(small, (cst.Assign, cst.AnnAssign)) else small for small in line.body]
    return any(value is not None and not isinstance(value, cst.Del) and name in _roots(value) for value in values)


def _is_read_in_turns(index: Index, name: str, block: Statement) -> bool:
    """Whether each turn of a loop that counts, as over epochs, reads a name: nobody means it to have none."""
    if not isinstance(block.node, cst.For) or index.qualified(getattr(block.node.iter, "func", None)) != "range":
        return False
    return _is_read_within(index, name, block.node)


def _is_read_within(index: Index, name: str, block: cst.For | cst.With) -> bool:
    """Whether a line of a block reads a name under no condition, or one in it of a loop, as of that over batches."""
    lines = [part.node for part in index.statements_in(block.body)]
    return any(
        _is_read_by(name, line)
        if isinstance(line, cst.SimpleStatementLine)
        else isinstance(line, (cst.For, cst.With)) and _is_read_within(index, name, line)
        for line in lines
    )


def _running_next(statement: Statement) -> Iterator[Statement]:
    """The statements that run after one, in its block and then in those around it."""
    yield from statement.following
    for around in statement.ancestors:
        if not isinstance(around.node, (cst.If, cst.Else, cst.With)):
            return
        yield from around.following


def _ends_or_gives(index: Index, name: str, block: Statement) -> bool:
    """Whether a compound statement may leave, survive an error, or give a name a value without reading it."""
    if isinstance(block.node, (cst.Try, cst.TryStar)):
        return True
    if isinstance(block.node, cst.If):
        return any(_passes_by(index, name, branch) for branch in _branches(index, block.node))
    inside = [one for one in index.statements if block in one.path]
    given = [one.value for one in index.bound([name], block.scope) if block in one.statement.path]
    ends = any(leaves(one.node) or always_leaves(one) for one in inside)
    return ends or any(value is None or name not in _roots(value) for value in given)


def _is_read_or_fails(index: Index, name: str, choice: cst.If) -> bool:
    """Whether each branch of a choice, one of which runs, begins by reading a name, or by raising an error."""
    last = choice
    while isinstance(last.orelse, cst.If):
        last = last.orelse
    firsts = [branch[0].node for branch in _branches(index, choice)]
    lines = [one for one in firsts if isinstance(one, cst.SimpleStatementLine)]
    surely = last.orelse is not None and len(lines) == len(firsts)
    return surely and all(_is_read_by(name, one) or _raises_error(one.body[0]) for one in lines)


def _raises_error(line: cst.BaseSmallStatement) -> bool:
    """Whether a line raises an error of Python's own, which is no way to end well: `SystemExit` is, a library's may."""
    raised = line.exc if isinstance(line, cst.Raise) else None
    kind = getattr(builtins, dotted(raised.func if isinstance(raised, cst.Call) else raised) or "", None)
    return isinstance(kind, type) and issubclass(kind, Exception)


def _branches(index: Index, choice: cst.If) -> Iterator[list[Statement]]:
    yield index.statements_in(choice.body)
    if isinstance(choice.orelse, cst.If):
        yield from _branches(index, choice.orelse)
    elif choice.orelse is not None:
        yield index.statements_in(choice.orelse.body)


def _passes_by(index: Index, name: str, branch: Sequence[Statement]) -> bool:
    """Whether the statements of a branch may leave, or give a name a value, before they read it."""
    for one in branch:
        if not isinstance(one.node, cst.SimpleStatementLine):
            if _ends_or_gives(index, name, one):
                return True
        elif _is_read_by(name, one.node):
            return False
        elif leaves(one.node) or always_leaves(one) or any(b.statement is one for b in index.bound([name], one.scope)):
            return True
    return False


def _why(index: Index, name: str, edit: Edit) -> str:
    """Say where a name gets the value that it may not have."""
    scope, file = index.scope_of(edit.node), index.file(edit.node)
    deletes = [
        small
        for statement in index.statements
        if statement.scope is scope and isinstance(statement.node, cst.SimpleStatementLine)
        for small in statement.node.body
        if isinstance(small, cst.Del) and name in _roots(small)
    ]
    if deletes:
        place = index.place(deletes[0], file)
        return f"`{name}` is deleted at {place}, and the new code for this place reads it. Leave out the `del`."
    lines = sorted({index.source.position(binding.statement.node)[0] for binding in index.bound([name], scope)})
    given = f"it gets one at line {' and '.join(map(str, lines))}" if lines else "nothing gives it one in this function"
    return (
        f"`{name}` may have no value where the new code for this place reads it: {given}, and not on every way here. "
        "Assign it on every way."
    )


def _roots(node: cst.CSTNode) -> set[str]:
    """Return the names in some code, without their attributes."""
    return {name.partition(".")[0] for name in names_in(node)}


def _compiles(text: str, name: str) -> bool:
    try:
        with warnings.catch_warnings():  # of the script's own code, which Python tells of when it runs that
            warnings.simplefilter("ignore")
            compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _taken_names(before: str, after: str, name: str) -> list[str]:
    """Return `function.name` for each name that a function has from outside before, and binds itself after."""
    old, new = (dict(_functions(symtable.symtable(text, name, "exec"), ())) for text in (before, after))
    return [
        ".".join((*path, symbol.get_name()))
        for path, table in old.items()
        for symbol in table.get_symbols()
        if path in new
        and not symbol.is_local()
        and symbol.get_name() in new[path].get_identifiers()
        and new[path].lookup(symbol.get_name()).is_local()
    ]


def _functions(
    table: symtable.SymbolTable, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], symtable.SymbolTable]]:
    for child in table.get_children():
        inner = (*path, child.get_name())
        if child.get_type() == "function":
            yield inner, child
        yield from _functions(child, inner)


def _untouched_lines(source: Source, edits: Sequence[Edit]) -> list[str]:
    lines = split_lines(source.text)
    touched: set[int] = set()
    for edit in edits:
        if edit.kind in (*_TAKING, "set-keyword", "name-arguments"):
            first, last = source.lines(edit.node)[0], source.lines(edit.last or edit.node)[1]
            touched.update(range(first, last + 1))
            while edit.kind in ("remove", "take-out") and first > 1 and not lines[first - 2].strip():
                first -= 1
                touched.add(first)
            while edit.kind in ("remove", "take-out") and last < len(lines) and not lines[last].strip():
                last += 1
                touched.add(last)
    return [line for number, line in enumerate(lines, start=1) if number not in touched]


def _lost_comment(source: Source, edits: Sequence[Edit], text: str) -> TokenInfo | None:
    """Return the first comment, but for those in removed statements, that a file has no more behind the others."""
    removed = {
        line
        for edit in edits
        if edit.kind in ("remove", "take-out")
        for line in range(source.lines(edit.node)[0], source.lines(edit.last or edit.node)[1] + 1)
    }
    rest = iter([comment.string for comment in comments(text)])
    for comment in comments(source.text):
        if comment.start[0] not in removed and comment.string not in rest:
            return comment
    return None


def _in_order(wanted: Iterable[str], lines: Iterable[str]) -> bool:
    rest = iter(lines)
    return all(any(line == other for other in rest) for line in wanted)
