"""The one pass over a file's tree that puts its edits in."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import dropwhile

import libcst as cst

from retrofit.edits import ORIGINAL, Edit
from retrofit.errors import EngineError, Problem, UserError
from retrofit.survey.index import Index
from retrofit.survey.scopes import File
from retrofit.text import split_lines

#: Where a new argument would make a line longer than about this, it goes on a line of its own.
_LINE_LENGTH = 95
_Line = cst.SimpleStatementLine | cst.BaseCompoundStatement


class Rewriter(cst.CSTTransformer):
    """Puts edits in.

    Args:
        index: the project's files.
        file: the file.
        edits: its edits, each in its place, in the order of their rules.
    """

    def __init__(self, index: Index, file: File, edits: Sequence[Edit]) -> None:
        super().__init__()
        self._index = index
        self._source = file.source
        self._module = file.source.module
        strings = re.sub(r'"""(.|\n)*?"""', "", file.source.text)
        self._double_quotes = strings.count('"') > strings.count("'")
        self._statements: dict[cst.CSTNode, list[Edit]] = defaultdict(list)
        self._expressions: dict[cst.CSTNode, list[Edit]] = defaultdict(list)
        self._touched: set[cst.CSTNode] = {self._module}
        self.names: dict[cst.Name, Edit] = {}
        self.verbatim: dict[str, str] = {}
        for edit in edits:
            expression = isinstance(edit.node, cst.BaseExpression)
            (self._expressions if expression else self._statements)[edit.node].append(edit)
            self._touched.update((edit.node, *index.ancestors(edit.node)))

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self._touched

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        for edit in self._expressions.get(original_node, ()):
            if edit.kind == "set-keyword":
                assert isinstance(updated_node, cst.Call)
                name, value = edit.text.partition("=")[0], self._expression(edit)
                updated_node = _set_keyword(updated_node, name, value, self._aligned(edit), self._is_long(edit))
            elif edit.kind == "name-arguments":
                assert isinstance(updated_node, cst.Call)
                updated_node = _name_arguments(updated_node, edit.text.split(","))
            else:
                updated_node = self._expression(edit)
        if isinstance(original_node, (cst.Module, cst.IndentedBlock)):
            assert isinstance(updated_node, (cst.Module, cst.IndentedBlock))
            return self._rebuild(original_node, updated_node)
        return updated_node

    def _expression(self, edit: Edit) -> cst.BaseExpression:
        """Return an edit's code, for `set-keyword` its value, with the file's own kind of quotes."""
        text = edit.text.partition("=")[2] if edit.kind == "set-keyword" else edit.text
        value = cst.parse_expression(text, self._module.config_for_parsing)
        formatted = any(isinstance(part, cst.FormattedString) for part in self._index.ancestors(edit.node))
        if self._double_quotes and not formatted:  # within an f-string, before Python 3.12, its own may not stand
            quoted = value.visit(_DoubleQuotes(self._source.code(edit.node)))
            assert isinstance(quoted, cst.BaseExpression)
            value = quoted
        self._note_names(value, edit)
        return value

    def _note_names(self, new: cst.CSTNode, edit: Edit) -> None:
        for child in (new, *new.children):
            if isinstance(child, cst.Name):
                self.names[child] = edit
            elif child is not new:
                self._note_names(child, edit)

    def _is_long(self, edit: Edit) -> bool:
        """Whether a new argument would make the line of its call too long."""
        source = self._index.source
        first, last = source.lines(edit.node)
        line = split_lines(source.text)[last - 1]
        ends_line = line.rstrip().endswith(source.code(edit.node))
        return first == last and ends_line and len(line) + len(edit.text) > _LINE_LENGTH

    def _aligned(self, edit: Edit) -> cst.ParenthesizedWhitespace:
        """Return the line break before an argument that stands below the first one."""
        source = self._index.source
        assert isinstance(edit.node, cst.Call)
        indent = source.position(self._index.statement(edit.node).node)[1] - 1
        inside = source.column(source.span(edit.node.func)[1]) - indent
        return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(" " * inside))

    def _rebuild(
        self, original: cst.Module | cst.IndentedBlock, updated: cst.Module | cst.IndentedBlock
    ) -> cst.Module | cst.IndentedBlock:
        body, waiting = self._lines(list(zip(original.body, updated.body, strict=True)))
        if not body:
            body = [cst.parse_statement("pass", self._module.config_for_parsing)]
        if any(line.comment for line in waiting):
            return updated.with_changes(body=body, footer=[*waiting, *updated.footer])
        return updated.with_changes(body=body)

    def _lines(
        self, pairs: Sequence[tuple[cst.CSTNode, cst.CSTNode]], wrapped: Edit | None = None
    ) -> tuple[list[_Line], list[cst.EmptyLine]]:
        """Return what becomes of some statements of a block, and the comments that are left behind the last.

        Args:
            pairs: the statements, each as it was and with the edits inside it applied.
            wrapped: the guard around all of them, which is done already.
        """
        body: list[_Line] = []
        waiting: list[cst.EmptyLine] = []
        beyond = 0
        for number, (old, new) in enumerate(pairs):
            if number < beyond:
                continue
            edits = [edit for edit in self._statements.get(old, []) if edit is not wrapped]
            assert isinstance(old, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
            assert isinstance(new, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
            wide = next((edit for edit in edits if edit.last is not None), None)
            if wide is not None:
                beyond = 1 + next((n for n, pair in enumerate(pairs) if pair[0] is wide.last), -1)
                if beyond <= number:
                    raise EngineError(f"rule {wide.code} wants to go around statements of different blocks")
                inner, left = self._lines(pairs[number:beyond], wide)
                lead = [*waiting, *inner[0].leading_lines]
                waiting = left
                inner[0] = inner[0].with_changes(leading_lines=[])
                statements = [_with_original(statement, inner) for statement in self._parse(wide)]
                body += [statements[0].with_changes(leading_lines=lead), *statements[1:]]
                continue
            if not any(line.comment for line in waiting) and (not body or _begins_with_blank(new)):
                waiting = []
            lead = [*waiting, *new.leading_lines]
            if number and not body:  # what stood first is gone, and no block begins with what set it apart
                lead = [*dropwhile(lambda line: line.comment is None, lead)]
            waiting = []
            group = self._group(new, edits)
            kept = (edits or new is not old) and not any(edit.kind == "take-out" for edit in edits)
            lost = _comments_lost(old, group) if kept else []
            if not group:
                waiting = [*lead, *lost]
                continue
            lead += lost
            own = () if group[0] is new else group[0].leading_lines
            if lead and own and own[0].comment is None:
                own = own[1:]
            group[0] = group[0].with_changes(leading_lines=[*lead, *own])
            body += group
        return body, waiting

    def _group(self, new: _Line, edits: list[Edit]) -> list[_Line]:
        """Return the statements that take the place of one."""
        before: list[_Line] = []
        after: list[_Line] = []
        main: list[_Line] = [new]
        for edit in edits:
            if edit.kind in ("remove", "take-out"):
                main = []
                continue
            statements = self._parse(edit)
            if edit.kind == "insert-before":
                before += statements
            elif edit.kind == "insert-after":
                after += statements
            elif edit.kind == "guard":
                main = [_with_original(statement, [new.with_changes(leading_lines=[])]) for statement in statements]
            else:
                main = _keep_trailing_comment(new, statements)
        if (before or main[:1] != [new]) and new in main:
            blank = 2 if before and isinstance(new, (cst.FunctionDef, cst.ClassDef)) else 0
            main[main.index(new)] = new.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * blank)
        return [*before, *main, *after]

    def _parse(self, edit: Edit) -> list[_Line]:
        """Return an edit's code as statements in the file's own style: indentation, line ends, quotes."""
        module = self._module
        text = edit.text.replace("\r\n", "\n").rstrip("\n") + "\n"
        if edit.verbatim:  # one node: to parse a whole module takes longer than all the rest
            token = f"{ORIGINAL}{len(self.verbatim)}"
            self.verbatim[token] = text.rstrip("\n").replace("\n", module.default_newline)
            return [cst.SimpleStatementLine([cst.Expr(cst.Name(token))])]
        try:
            snippet = cst.parse_module(
                text.replace("\n", module.default_newline),
                cst.PartialParserConfig(default_newline=module.default_newline),
            )
        except cst.ParserSyntaxError:
            raise UserError(
                Problem(edit.code, 0, 0, "RF007", f"writes code that is no Python: {text.strip()}")
            ) from None
        if self._double_quotes:
            snippet = snippet.visit(_DoubleQuotes(self._source.code(edit.node)))
        around = next((node for node in self._index.ancestors(edit.node) if isinstance(node, cst.IndentedBlock)), None)
        if around is not None and around.indent is not None:
            snippet = snippet.visit(_Indentation(around.indent))
        self._note_names(snippet, edit)
        first, *rest = snippet.body
        first = first.with_changes(leading_lines=[*snippet.header, *first.leading_lines])
        return [_without_indented_blanks(statement) for statement in (first, *rest)]


class _DoubleQuotes(cst.CSTTransformer):
    """Writes new strings with double quotes, in a file that does; strings of the user's own code stay."""

    def __init__(self, own: str) -> None:
        super().__init__()
        self._own = own

    def visit_FormattedString(self, node: cst.FormattedString) -> bool:  # noqa: N802
        return False  # quotes inside it must differ from its own

    def leave_SimpleString(  # noqa: N802
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.SimpleString:
        text = original_node.value
        if text.startswith("'") and not re.search(r"[\"\\]", text) and text not in self._own:
            return updated_node.with_changes(value=f'"{text[1:-1]}"')
        return updated_node


class _Indentation(cst.CSTTransformer):
    """Indents new blocks as the block that they stand in is indented, which may be unlike the rest of the file."""

    def __init__(self, indent: str) -> None:
        super().__init__()
        self._indent = indent

    def leave_IndentedBlock(  # noqa: N802
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated_node.with_changes(indent=self._indent)


def _without_indented_blanks(statement: _Line) -> _Line:
    lines = [line if line.comment else line.with_changes(indent=False) for line in statement.leading_lines]
    return statement.with_changes(leading_lines=lines)


def _begins_with_blank(statement: _Line) -> bool:
    return bool(statement.leading_lines) and statement.leading_lines[0].comment is None


def _comments_lost(old: _Line, group: Sequence[_Line]) -> list[cst.EmptyLine]:
    """Return the comments in and behind a statement that are not in what takes its place, as lines of their own.

    Those in the body of a compound statement count where the whole goes.
    """
    if isinstance(old, cst.SimpleStatementLine):
        inside = _comments([*old.body, old.trailing_whitespace])
    elif any(isinstance(statement, type(old)) for statement in group):
        return []
    else:
        inside = _comments([old.with_changes(leading_lines=[])])
    if not inside:
        return []
    there = Counter(comment.value for comment in _comments(group))
    lost = []
    for comment in inside:
        there[comment.value] -= 1
        if there[comment.value] < 0:
            lost.append(cst.EmptyLine(comment=comment))
    return lost


def _comments(nodes: Sequence[cst.CSTNode]) -> list[cst.Comment]:
    found: list[cst.Comment] = []
    for node in nodes:
        found += [node] if isinstance(node, cst.Comment) else _comments(node.children)
    return found


def _keep_trailing_comment(old: _Line, statements: list[_Line]) -> list[_Line]:
    if not isinstance(old, cst.SimpleStatementLine) or old.trailing_whitespace.comment is None:
        return statements
    last = statements[-1]
    if isinstance(last, cst.SimpleStatementLine) and last.trailing_whitespace.comment is None:
        return [*statements[:-1], last.with_changes(trailing_whitespace=old.trailing_whitespace)]
    return statements


class _Placeholder(cst.CSTTransformer):
    """Puts statements where a template says so. What is in no block stays the same node."""

    def __init__(self, originals: Sequence[_Line]) -> None:
        super().__init__()
        self._originals = originals

    def on_visit(self, node: cst.CSTNode) -> bool:
        return isinstance(node, (cst.BaseStatement, cst.BaseSuite, cst.Else, cst.Finally, cst.ExceptHandler))

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        small = updated_node.body[0]
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Name) and small.value.value == ORIGINAL:
            first, *rest = self._originals
            return cst.FlattenSentinel([first.with_changes(leading_lines=updated_node.leading_lines), *rest])
        return updated_node


def _with_original(statement: _Line, originals: Sequence[_Line]) -> _Line:
    changed = statement.visit(_Placeholder(originals))
    assert isinstance(changed, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
    return changed


def _name_arguments(call: cst.Call, names: Sequence[str]) -> cst.Call:
    """Return a call whose positional arguments are given by name, those with an empty name left as they are."""
    equal = cst.AssignEqual(whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace(""))
    args = list(call.args)
    for number, (arg, name) in enumerate(zip(args, names, strict=False)):
        if name and arg.keyword is None:
            args[number] = arg.with_changes(keyword=cst.Name(name), equal=equal)
    return call.with_changes(args=args)


def _set_keyword(
    call: cst.Call, name: str, value: cst.BaseExpression, aligned: cst.ParenthesizedWhitespace, long: bool
) -> cst.Call:
    """Return a call with a keyword argument changed or, behind the others, added.

    Args:
        aligned: the line break before an argument that stands below the first one.
        long: whether the line would get too long without it.
    """
    args = list(call.args)
    for number, arg in enumerate(args):
        if arg.keyword is not None and arg.keyword.value == name:
            args[number] = arg.with_changes(value=value)
            return call.with_changes(args=args)
    new = cst.Arg(
        keyword=cst.Name(name),
        value=value,
        equal=cst.AssignEqual(whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")),
    )
    if args:
        last = args[-1]
        end = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else last.whitespace_after_arg
        first = call.whitespace_before_args
        between = args[-2].comma.whitespace_after if len(args) > 1 and isinstance(args[-2].comma, cst.Comma) else first
        space: cst.BaseParenthesizableWhitespace = aligned if long else cst.SimpleWhitespace(" ")
        if isinstance(between, cst.ParenthesizedWhitespace):
            space = cst.ParenthesizedWhitespace(indent=between.indent, last_line=between.last_line)
        if isinstance(end, cst.ParenthesizedWhitespace):
            if _comments([end]) and not isinstance(space, cst.ParenthesizedWhitespace):
                space = aligned
            if isinstance(space, cst.ParenthesizedWhitespace):
                space = end.with_changes(indent=space.indent, last_line=space.last_line)
            end = cst.ParenthesizedWhitespace(indent=end.indent, last_line=end.last_line)
        if isinstance(last.comma, cst.Comma):
            new = new.with_changes(comma=cst.Comma(whitespace_after=end))
        else:
            new = new.with_changes(whitespace_after_arg=end)
        comma = cst.Comma(whitespace_after=space)
        args[-1] = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*args, new])
