"""Where LibCST's nodes stand in the text, and which files can be read at all."""

from __future__ import annotations

import ast
import codecs
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

import retrofit.text
from retrofit.errors import UserError
from retrofit.source import Source, Sources, read_source
from retrofit.survey.nodes import children
from retrofit.text import parsed, split_lines
from tests.helpers import code, refusal_of, source_of

SAMPLE = code('''
    #!/usr/bin/env python
    """Docstring: été."""
    from __future__ import annotations

    import os, sys  # two
    from a.b import (
        c,  # comment
        d as e,
    )


    @decorator
    @other.decorator(1, key="wert")
    class Ünique(Base, metaclass=Meta):
        x: int = 3

        @property
        async def method(self, a, /, b=(1), *args: int, c=None, **kw) -> dict[str, int]:
            """Text
            over lines."""
            async with open("é") as f, g() as (h, i):
                await f(x)(y)[z].w
            yield {"ä": [v for v in (yield) if (v)], **kw}


    def f(): pass
    if (a) and ((b) or not (c)): x = (1 + (2 * 3)) ; y = 2
    elif (n := len(a)) > 10:
        del x, y
    else:
        pass  # trailing
    for i, (j, k) in enumerate(((1), (2))):
        try:
            z = lambda q, *r: (q, *r)
        except (ValueError, KeyError) as error:
            raise Error("ü", f"{x!r:>{width}} {y}") from error
        finally:
            continue
    while (
        a
        # comment
        < b
    ):
        model = nn.parallel.DistributedDataParallel(model(x)(y), device_ids=[gpu],
                                                    broadcast_buffers=False)  # é
        t = "one" 'two' \\
            """three
    four"""
    match point:
        case Point(x=0) | [1, *_]:
            print(-x ** 2, a if b else c, x[1:2, ...], not x)
    with (open(a) as b, open(c) as d):
        global q
        assert x, "text"
    type_ = tuple[int, ...]
    a = b = c = yes, no
    a += 1
''')

TEXTS = {
    "newline": SAMPLE.encode(),
    "crlf": SAMPLE.replace("\n", "\r\n").encode(),
    "bom": codecs.BOM_UTF8 + SAMPLE.encode(),
    "tabs": SAMPLE.replace("    ", "\t").encode(),
    "latin-1": b"# -*- coding: latin-1 -*-\n" + SAMPLE.encode("latin-1"),
    "no import": b"x = 1\n",
    "only a comment": b"# comment\n",
    "blank lines at both ends": b"\n\n  \nx = f( (y) )\n\n\n",
}


def offset_of(source: Source, line: int, column: int) -> int:
    starts = [0]
    for part in source.text.replace("\r\n", "\n\0").replace("\r", "\n").replace("\n\0", "\r\n").splitlines(True):
        starts.append(starts[-1] + len(part))
    return starts[line - 1] + column


def nodes_of(source: Source) -> dict[cst.CSTNode, CodeRange]:
    """Return LibCST's own positions of all statements and expressions."""
    wrapper = MetadataWrapper(source.module, unsafe_skip_copy=True)
    kinds = (cst.BaseExpression, cst.BaseSmallStatement, cst.BaseStatement)
    return {node: place for node, place in wrapper.resolve(PositionProvider).items() if isinstance(node, kinds)}


@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS.keys())
def test_positions_equal_those_of_libcst(data: bytes) -> None:
    source = source_of(data)
    for node, place in nodes_of(source).items():
        first, last = (
            offset_of(source, place.start.line, place.start.column),
            offset_of(source, place.end.line, place.end.column),
        )
        if isinstance(node, cst.BaseExpression):
            own = source.text[first:last]
            first, last = source.span(node)
            assert own in source.code(node)
            assert source.code(node).replace(own, "").strip("() \t\r\n") == ""
        else:
            assert source.span(node) == (first, last), source.code(node)


@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS.keys())
def test_expressions_without_parentheses_equal_those_of_libcst(data: bytes) -> None:
    source = source_of(data)
    checked = 0
    for node, place in nodes_of(source).items():
        if isinstance(node, cst.BaseExpression) and not getattr(node, "lpar", ()):
            line, column = place.start.line, place.start.column
            assert source.span(node)[0] == offset_of(source, line, column), source.code(node)
            assert source.span(node)[1] == offset_of(source, place.end.line, place.end.column), source.code(node)
            checked += 1
    assert checked or source.module.body == () or data == TEXTS["only a comment"]


@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS.keys())
def test_every_expression_stands_as_python_where_it_is_said_to_be(data: bytes) -> None:
    source = source_of(data)
    wrapper = MetadataWrapper(source.module, unsafe_skip_copy=True)
    for node in wrapper.resolve(PositionProvider):
        if isinstance(node, (cst.Call, cst.BinaryOperation, cst.Comparison)):
            assert cst.parse_expression(f"({source.code(node)})".replace("\r\n", "\n")) is not None


def test_line_and_column_count_from_one() -> None:
    source = source_of("x = 1\nif x:\n    é = f(y)\n")
    call = cst.ensure_type(cst.ensure_type(source.module.body[1], cst.If).body.body[0], cst.SimpleStatementLine)
    assign = cst.ensure_type(call.body[0], cst.Assign)
    assert source.position(assign) == (3, 5)
    assert source.position(assign.value) == (3, 9)


def test_lines_of_a_statement_do_not_count_its_line_end() -> None:
    source = source_of("a = 1\r\nf(\r\n  x,\r\n)\r\nb = 2\r\n")
    assert [source.lines(node) for node in source.module.body] == [(1, 1), (2, 4), (5, 5)]


def test_form_feed_does_not_split_lines() -> None:
    assert split_lines("a\x0cb\u2028c\r\nd\re\n") == ["a\x0cb\u2028c", "d", "e", ""]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = f(y)", id="statement"),
        pytest.param("def f():\n    return x", id="block"),
        pytest.param("x = 1\n# comment", id="comment"),
        pytest.param("if x:\n    y = 1\n    # comment", id="comment in a block"),
        pytest.param("x = 1\r\ny = 2", id="crlf"),
    ],
)
def test_file_without_a_final_newline_is_read(text: str) -> None:
    source = source_of(text)
    assert source.code(source.module.body[0]) == text.split("\n# ")[0].split("\r\n")[0].removesuffix("\n    # comment")


# Encodings


@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS.keys())
def test_text_goes_back_to_the_same_bytes(data: bytes) -> None:
    source = source_of(data)
    assert source.encode(source.text) == data


@pytest.mark.parametrize(
    ("data", "encoding", "bom"),
    [
        pytest.param(b"x = 1\n", "utf-8", False, id="utf-8"),
        pytest.param(codecs.BOM_UTF8 + b"x = 1\n", "utf-8", True, id="bom"),
        pytest.param(codecs.BOM_UTF8 + b"# coding: utf-8\nx = 1\n", "utf-8", True, id="bom and coding"),
        pytest.param(b"# coding: latin-1\nx = '\xe9'\n", "iso-8859-1", False, id="latin-1"),
        pytest.param(b"#!/bin/sh\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n", "cp1252", False, id="second line"),
    ],
)
def test_encoding_is_told_by_the_file(data: bytes, encoding: str, bom: bool) -> None:
    source = source_of(data)
    assert (source.encoding, source.bom) == (encoding, bom)
    assert source.encode(source.text) == data


def test_column_after_non_ascii_counts_characters() -> None:
    source = source_of("# coding: latin-1\né = f(y)\n".encode("latin-1"))
    assign = cst.ensure_type(cst.ensure_type(source.module.body[0], cst.SimpleStatementLine).body[0], cst.Assign)
    assert source.code(assign.value) == "f(y)"
    assert source.position(assign.value) == (2, 5)


# Files that cannot be read


@pytest.mark.parametrize(
    ("data", "code", "place", "words"),
    [
        pytest.param(b'x = 1\nprint "old"\n', "RF004", (2, 1), "Python 2", id="Python 2 print"),
        pytest.param(b"x = 1\nx = x.cuda(async=True)\n", "RF004", (2, 12), "non_blocking=True", id="async"),
        pytest.param(b"x = f(1,\n      async = True)\n", "RF004", (2, 7), "non_blocking=True", id="async below"),
        pytest.param(b"exec code in names\n", "RF004", (1, 1), "Python 2", id="Python 2 exec"),
        pytest.param(b"x.cuda(async=True)\n", "RF004", (1, 1), "not Python 3", id="async as a keyword"),
        pytest.param(b"def f(:\n", "RF004", (1, 1), "syntax", id="broken"),
        pytest.param(b"if x:\n    y\n  z\n", "RF004", (3, 1), "unindent does not match", id="bad indentation"),
        pytest.param(b"x = 1\nreturn x\n", "RF004", (2, 1), "outside function", id="return outside a function"),
        pytest.param(b"for x in y:\n    pass\nbreak\n", "RF004", (3, 1), "outside loop", id="break outside a loop"),
        pytest.param(b"a\nb\nfrom __future__ import x\n", "RF004", (3, 1), "__future__", id="late __future__"),
        pytest.param(b"f(a=1, a=2)\n", "RF004", (1, 8), "keyword argument repeated", id="argument twice"),
        pytest.param(b"x = '\xe9'\n", "RF003", (1, 1), "Save the file as UTF-8", id="undecodable"),
        pytest.param(b"# coding: latin-9000\nx = 1\n", "RF003", (1, 1), "latin-9000", id="unknown encoding"),
        pytest.param(
            codecs.BOM_UTF8 + b"# coding: latin-1\nx = 1\n", "RF003", (1, 1), "decoded", id="bom against coding"
        ),
    ],
)
def test_wrong_input_is_one_problem_with_its_place(data: bytes, code: str, place: tuple[int, int], words: str) -> None:
    with pytest.raises(UserError) as caught:
        source_of(data)
    (problem,) = caught.value.problems
    assert problem.code == code
    assert problem.line == place[0]
    assert problem.column >= 1
    assert words in problem.message
    assert "\n" not in str(problem)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="LibCST knows no newer Python")
@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("x = 1\ny = t'{x}'\n", "Run retrofit by the Python that the script is written for"),
        ("x = 1\ny = t'{x}' +\n", "Fix it first"),
        ("x = 1\ny = t'{x}'\n" + 90 * "[" + 90 * "]", "Fix it first"),
    ],
)
def test_what_a_newer_python_takes_is_told_from_what_none_does(text: str, cure: str) -> None:
    with pytest.raises(UserError, match=rf"train.py:2:\d+: RF004 is not Python 3.*{cure}; nothing was changed"):
        source_of(text)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"x = 1\n\x0c\ny = 2\n", id="form feed on its own line"),
        pytest.param(b"if x:\n    a\n\x0c    b\n", id="form feed before a statement"),
        pytest.param(b"x = (1 +\r\n  2)\ny = 3\n", id="mixed line ends"),
        pytest.param(b"class A:\n    x = 1\n\x0c\n    y = 2\n", id="form feed in a class"),
        pytest.param(SAMPLE.replace("\n", "\r").encode(), id="carriage returns only"),
    ],
)
def test_odd_white_space_is_kept_or_refused(data: bytes) -> None:
    with suppress(UserError):
        source = source_of(data)
        assert source.encode(source.module.code) == data


def test_no_such_file_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^train\.py: RF001 no such file"):
        read_source(tmp_path / "train.py", "train.py")


def test_directory_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^src: RF002 is a directory"):
        read_source(tmp_path, "src")


@pytest.mark.parametrize(
    "data", [pytest.param(b"x = 1\0\n", id="nul byte"), pytest.param("x = 1\n".encode("utf-16"), id="utf-16")]
)
def test_binary_file_is_a_problem(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "train.py").write_bytes(data)
    with pytest.raises(UserError, match=r"^train\.py: RF003 is not a text file"):
        read_source(tmp_path / "train.py", "train.py")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = " + " + ".join("a" * 600) + "\n", id="long sum"),
        pytest.param("x = a" + ".f()" * 600 + "\n", id="long chain"),
    ],
)
def test_deep_tree_is_a_problem(text: str) -> None:
    assert refusal_of(lambda: source_of(text)).problems[0].code == "RF004"


def test_code_is_read_without_what_is_for_people() -> None:
    strings = "'key', \"a key\", r\"k\", '''k''', f\"see {x} \", f'{x}k'"
    source = source_of(f"def f(x):  # a == b\n    'Do it.'\n    g({strings})  # h()\n    ''\n")
    assert source.read().split() == ["def", "f(x):", "g('key',", "'',", "r'k',", "'k',", "f'{x}',", "f'{x}k')"]
    assert source.read(source.module.body[0]).split() == source.read().split()
    assert source.words() == {"def", "f", "x", "g", "key", "r", "k"}


def test_what_is_below_a_node_is_what_libcst_finds_but_for_signs_and_white_space() -> None:
    def telling(nodes: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
        signs = ("Paren", "Bracket", "Brace", "Asynchronous")
        modules = ("libcst._nodes.whitespace", "libcst._nodes.op")
        return [one for one in nodes if type(one).__module__ not in modules and not type(one).__name__.endswith(signs)]

    waiting: list[cst.CSTNode] = [cst.parse_module(SAMPLE + "try:\n    pass\nexcept* E as e:\n    pass\n")]
    for node in waiting:
        below = telling(node.children)
        assert telling(children(node)) == below, node
        waiting += below
    assert len({type(node) for node in waiting}) > 70


def test_each_file_is_asked_once_whether_a_node_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions that go through the same nodes of hundreds of files again and again took minutes."""
    files = [source_of(f"a = {number}\n") for number in range(30)]
    nodes = [file.module.body[0] for file in files]
    sources, asked = Sources(files), list[object]()
    holds = Source.holds

    def counted(file: Source, node: cst.CSTNode) -> bool:
        asked.append(node)
        return holds(file, node)

    monkeypatch.setattr(Source, "holds", counted)
    for _ in range(20):
        assert [sources.file(node) for node in (*nodes, *nodes[::-1])] == [*files, *files[::-1]]
    assert len(asked) <= 20 * 60 + 30 * 30


def test_the_nodes_of_pythons_tree_are_those_that_it_gives_itself_and_are_listed_once() -> None:
    """Each file of the engine has its shapes; a text that is asked about again gives the same list."""
    for path in sorted(Path(retrofit.__file__).parent.glob("*.py")):
        text = path.read_text("utf-8")
        assert [*retrofit.text.nodes_of(parsed(text))] == [*ast.walk(parsed(text))]
        assert retrofit.text.nodes_of(parsed(text)) is retrofit.text.nodes_of(parsed(text))
