"""Each kind of edit, alone and together, in every style of file; and the whole plan on generated scripts."""

from __future__ import annotations

import codecs
import re
import tempfile
from pathlib import Path
from textwrap import indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrofit.edits import ORIGINAL, Edit
from retrofit.errors import EngineError, UserError
from retrofit.options import Options
from retrofit.rewrite import rewrite
from retrofit.text import split_lines
from tests.conftest import SCRIPT, swapped
from tests.helpers import code, edited, edits_of, index_of, plan_of, rewritten, script

Change = tuple[str, str, str]

IN_PROCESS = Options(in_process=True)
BY_ACC = Options(metric="acc", mode="max")


@pytest.mark.parametrize(
    ("text", "change", "expected"),
    [
        pytest.param("a\nb\n", ("insert-before", "b", "x\n"), "a\nx\nb\n", id="insert-before"),
        pytest.param("a\nb\n", ("insert-after", "a", "x\n"), "a\nx\nb\n", id="insert-after"),
        pytest.param("a\nb\n", ("insert-after", "b", "x"), "a\nb\nx\n", id="insert-after the last"),
        pytest.param("a\nb\n", ("insert-before", "a", "if x:\n    y\n"), "if x:\n    y\na\nb\n", id="insert a block"),
        pytest.param("a = 1\n", ("replace", "a = 1", "b = 2\nc = 3\n"), "b = 2\nc = 3\n", id="replace a statement"),
        pytest.param("a = f(x) + 1\n", ("replace", "f(x)", "g(y)"), "a = g(y) + 1\n", id="replace an expression"),
        pytest.param("a\nb\nc\n", ("remove", "b", ""), "a\nc\n", id="remove"),
        pytest.param("f(a)\n", ("guard", "f(a)", f"if x:\n    {ORIGINAL}\n"), "if x:\n    f(a)\n", id="guard"),
        pytest.param(
            "f(a)\n",
            ("guard", "f(a)", f"if x:\n    y\n    {ORIGINAL}\nelse:\n    z\n"),
            "if x:\n    y\n    f(a)\nelse:\n    z\n",
            id="guard with else",
        ),
        pytest.param(
            "if a:\n    f(\n        b\n    )\n",
            ("guard", "f(\n        b\n    )", f"with x:\n    {ORIGINAL}\n"),
            "if a:\n    with x:\n        f(\n            b\n        )\n",
            id="guard keeps the lines of a call",
        ),
        pytest.param(
            "if a:\n    b\n",
            ("guard", "if a:\n    b", f"with x:\n    {ORIGINAL}\n"),
            "with x:\n    if a:\n        b\n",
            id="guard a block",
        ),
        pytest.param(
            "if a:\n  b\nif c:\n    d\n",
            ("guard", "d", f"if x:\n    {ORIGINAL}\n"),
            "if a:\n  b\nif c:\n    if x:\n        d\n",
            id="in a block of other indentation",
        ),
        pytest.param("import os\na\n", ("add-import", "", "import abc"), "import abc\nimport os\na\n", id="add-import"),
    ],
)
def test_edit(text: str, change: Change, expected: str) -> None:
    assert edited(text, change) == expected


def test_edits_at_one_place_take_effect_in_their_order() -> None:
    changes = [
        ("insert-before", "a", "x"),
        ("insert-after", "a", "p"),
        ("insert-before", "a", "y"),
        ("insert-after", "a", "q"),
    ]
    assert edited("a\n", *changes) == "x\ny\na\np\nq\n"


def around(text: str, first: str, last: str, *others: Change) -> str:
    """Return a text with a `with` around the statements from ``first`` to ``last``, and other edits."""
    index = index_of(text)
    ends = {index.source.code(statement.node).strip(): statement.node for statement in index.statements}
    wide = Edit("guard", ends[first], f"with x:\n    {ORIGINAL}\n", "TST100", ends[last])
    return rewrite(index, [wide, *edits_of(index, *others)])


def test_guard_around_several_statements() -> None:
    text = "def f():\n    # first\n    a()\n\n    # second\n    b(1)  # b\n    c\n    # end\n"
    guarded = (
        "def f():\n    # first\n    with x:\n        a()\n\n        # second\n        b(1)  # b\n    c\n    # end\n"
    )
    assert around(text, "a()", "b(1)") == guarded
    assert around("a()\nb\n", "a()", "b") == "with x:\n    a()\n    b\n"
    assert around("a()\n", "a()", "a()") == "with x:\n    a()\n"


def test_edits_within_a_guard_around_several_statements() -> None:
    text = "a()\nb(1)\nc\n"
    assert around(text, "a()", "c", ("replace", "1", "2"), ("remove", "c", "")) == "with x:\n    a()\n    b(2)\n"
    inserted = around(text, "a()", "b(1)", ("insert-after", "b(1)", "d"), ("insert-before", "c", "e"))
    assert inserted == "with x:\n    a()\n    b(1)\n    d\ne\nc\n"


def test_guard_around_statements_of_different_blocks_is_an_error() -> None:
    with pytest.raises(EngineError, match="different blocks"):
        around("a\nif b:\n    c\n", "a", "c")
    with pytest.raises(EngineError, match="different blocks"):
        around("a\nb\n", "b", "a")


def test_insertion_and_guard_at_one_statement() -> None:
    changes = [("guard", "f(a)", f"if x:\n    {ORIGINAL}\n"), ("replace", "a", "b"), ("insert-before", "f(a)", "y")]
    assert edited("# lead\nf(a)  # tail\n", *changes) == "# lead\ny\nif x:\n    f(b)  # tail\n"


# Comments


@pytest.mark.parametrize(
    ("text", "change", "expected"),
    [
        pytest.param(
            "# lead\nb\n", ("insert-before", "b", "x"), "# lead\nx\nb\n", id="leading stays above an insertion"
        ),
        pytest.param(
            "a  # tail\nb\n", ("insert-after", "a", "x"), "a  # tail\nx\nb\n", id="trailing stays before an insertion"
        ),
        pytest.param(
            "# lead\na = 1  # tail\n",
            ("replace", "a = 1", "b = 2"),
            "# lead\nb = 2  # tail\n",
            id="both at a replacement",
        ),
        pytest.param(
            "a = 1  # tail\n", ("replace", "a = 1", "if b:\n    c"), "# tail\nif b:\n    c\n", id="trailing at a block"
        ),
        pytest.param(
            "a\n# lead\nb  # tail\nc\n", ("remove", "b", ""), "a\n# lead\n# tail\nc\n", id="both at a removal"
        ),
        pytest.param(
            "if a:\n    b  # tail\n",
            ("remove", "b", ""),
            "if a:\n    pass\n    # tail\n",
            id="at the only statement removed",
        ),
        pytest.param(
            "if a:\n    b\n    c  # tail\nd\n",
            ("remove", "c", ""),
            "if a:\n    b\n    # tail\nd\n",
            id="at the last statement removed",
        ),
        pytest.param("a\nb  # tail\n", ("remove", "b", ""), "a\n# tail\n", id="at the end of the file"),
        pytest.param(
            "# lead\nf(a)  # tail\n",
            ("guard", "f(a)", f"if x:\n    {ORIGINAL}"),
            "# lead\nif x:\n    f(a)  # tail\n",
            id="at a guard",
        ),
        pytest.param("f(a)\n", ("insert-before", "f(a)", "# why\nx"), "# why\nx\nf(a)\n", id="of the new code"),
        pytest.param(
            "if a:  # tail\n    b\n", ("insert-before", "b", "x"), "if a:  # tail\n    x\n    b\n", id="behind a colon"
        ),
        pytest.param(
            "# lead\na = f(  # one\n    1,  # two\n)  # tail\n",
            ("replace", "a = f(  # one\n    1,  # two\n)", "a = g()"),
            "# lead\n# one\n# two\na = g()  # tail\n",
            id="inside a replacement",
        ),
        pytest.param("a = [f(  # one\n)]\n", ("replace", "f(  # one\n)", "g()"), "# one\na = [g()]\n", id="of a part"),
        pytest.param(
            "if x:\n    a\n    f(  # one\n        1  # one\n    )  # one\n",
            ("remove", "f(  # one\n        1  # one\n    )", ""),
            "if x:\n    a\n    # one\n    # one\n    # one\n",
            id="inside a removal",
        ),
        pytest.param(
            "if x:  # head\n    # lead\n    a\n",
            ("replace", "if x:  # head\n    # lead\n    a", "b"),
            "# head\n# lead\nb\n",
            id="inside a block that is replaced",
        ),
    ],
)
def test_comments_are_kept(text: str, change: Change, expected: str) -> None:
    assert edited(text, change) == expected


def test_removal_of_the_only_statement_leaves_pass() -> None:
    assert edited("for x in y:\n    a\nb\n", ("remove", "a", "")) == "for x in y:\n    pass\nb\n"


# Keywords


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("f(a)\n", "f(a, k=True)\n", id="one argument"),
        pytest.param("f()\n", "f(k=True)\n", id="none"),
        pytest.param("f(a, b=1)\n", "f(a, b=1, k=True)\n", id="keyword before"),
        pytest.param("f(a, k=False)\n", "f(a, k=True)\n", id="changed"),
        pytest.param("f(a, k = False, c=1)\n", "f(a, k = True, c=1)\n", id="changed in its place"),
        pytest.param("f(a, **kwargs)\n", "f(a, **kwargs, k=True)\n", id="after an unpacked mapping"),
        pytest.param("f(a,)\n", "f(a, k=True,)\n", id="trailing comma"),
        pytest.param(
            "f(\n    a,\n    b,\n)\n", "f(\n    a,\n    b,\n    k=True,\n)\n", id="one a line, trailing comma"
        ),
        pytest.param("f(\n    a,\n    b\n)\n", "f(\n    a,\n    b,\n    k=True\n)\n", id="one a line"),
        pytest.param("f(a,\n  b)\n", "f(a,\n  b,\n  k=True)\n", id="aligned"),
        pytest.param("f(\n    a\n)\n", "f(\n    a,\n    k=True\n)\n", id="one argument on its line"),
        pytest.param(
            "f(\n    a,\n    b  # about b\n)\n",
            "f(\n    a,\n    b,  # about b\n    k=True\n)\n",
            id="comment without a comma",
        ),
        pytest.param(
            "f(\n    a,\n    b,  # about b\n)\n",
            "f(\n    a,\n    b,  # about b\n    k=True,\n)\n",
            id="comment after the last comma",
        ),
        pytest.param(
            "f(\n    a,  # about a\n    b,  # about b\n)\n",
            "f(\n    a,  # about a\n    b,  # about b\n    k=True,\n)\n",
            id="comments on every line",
        ),
        pytest.param("f(a, b  # about b\n)\n", "f(a, b,  # about b\n  k=True\n)\n", id="comment in one line"),
        pytest.param(
            "if x:\n    f(a  # about a\n      )\n",
            "if x:\n    f(a,  # about a\n      k=True\n      )\n",
            id="comment on the only argument",
        ),
        pytest.param("f(a,  # about a\n  )\n", "f(a,  # about a\n  k=True,\n  )\n", id="comment and trailing comma"),
        pytest.param("f(a  # about a\n  ,)\n", "# about a\nf(a, k=True,)\n", id="comment before the last comma"),
        pytest.param("f(k=(  # why\n  1))\n", "# why\nf(k=True)\n", id="comment in the old value"),
    ],
)
def test_keyword_is_set(text: str, expected: str) -> None:
    index = index_of(text)
    assert rewrite(index, [Edit("set-keyword", index.calls[0], "k=True", "TST001")]) == expected


def test_keyword_goes_on_its_own_line_where_the_line_gets_long() -> None:
    text = f"if a:\n    model = wrap(model, device_ids=[{'x' * 60}])\n"
    index = index_of(text)
    changed = rewrite(index, [Edit("set-keyword", index.calls[0], "find_unused_parameters=True", "TST001")])
    assert changed == text.replace("])", "],\n                 find_unused_parameters=True)")


# Styles of files


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param("if a:\r\n    b\r\n", "if a:\r\n    if x:\r\n        y\r\n    b\r\n", id="crlf"),
        pytest.param("if a:\n\tb\n", "if a:\n\tif x:\n\t\ty\n\tb\n", id="tabs"),
        pytest.param("if a:\n  b\n", "if a:\n  if x:\n    y\n  b\n", id="two spaces"),
        pytest.param("if a:\n        b\n", "if a:\n        if x:\n                y\n        b\n", id="eight spaces"),
        pytest.param("é = 1\nif a:\n    b\n", "é = 1\nif a:\n    if x:\n        y\n    b\n", id="non-ascii"),
        pytest.param("if a:\n    b", "if a:\n    if x:\n        y\n    b", id="no final newline"),
    ],
)
def test_new_code_takes_the_files_style(data: str, expected: str) -> None:
    assert edited(data, ("insert-before", "b", "if x:\n    y\n")) == expected


@pytest.mark.parametrize("name", ["cal", "call", "longer_call"])
def test_continuation_stays_aligned_with_two_spaces(name: str) -> None:
    new = f"{name}(first,\n{' ' * len(name)} second)\n"
    expected = f"if a:\n  {name}(first,\n  {' ' * len(name)} second)\n  b\n"
    assert edited("if a:\n  b\n", ("insert-before", "b", new)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('a = "1"\nb\n', 'a = "1"\nx = "2"\nb\n', id="double"),
        pytest.param("a = '1'\nb\n", "a = '1'\nx = '2'\nb\n", id="single"),
        pytest.param("b\n", "x = '2'\nb\n", id="none"),
    ],
)
def test_new_strings_take_the_files_quotes(text: str, expected: str) -> None:
    assert edited(text, ("insert-before", "b", "x = '2'\n")) == expected


@pytest.mark.parametrize("new", ["x = 'say \"2\"'", "x = 'a\\'b'", 'x = "2"', "x = f'{y}'"])
def test_strings_that_need_their_quotes_keep_them(new: str) -> None:
    assert edited('a = "1"\nb\n', ("insert-before", "b", new)) == f'a = "1"\n{new}\nb\n'


def test_what_brings_definitions_is_written_as_it_is() -> None:
    helper = "import mine\n\n\ndef helps():\n    return 'x'  # why"
    text = 'import os\r\n\r\na = "1"\r\n'
    expected = text.replace("os\r\n", "os\r\n" + helper.replace("\n", "\r\n") + "\r\n", 1)
    assert edited(text, ("add-import", "", helper)) == expected


# Imports


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("import os\nx = 1\n", "import os\nimport mine\nx = 1\n", id="after the imports"),
        pytest.param(
            "import sys\nsys.path.insert(0, '.')\nimport torch\nx = 1\n",
            "import sys\nsys.path.insert(0, '.')\nimport torch\nimport mine\nx = 1\n",
            id="after a change of sys.path between imports",
        ),
        pytest.param(
            "import sys\nsys.path.insert(0, '.')\nx = 1\n",
            "import sys\nsys.path.insert(0, '.')\nimport mine\nx = 1\n",
            id="after a change of sys.path behind the imports",
        ),
        pytest.param(
            "from __future__ import annotations\nx = 1\n",
            "from __future__ import annotations\nimport mine\nx = 1\n",
            id="after __future__",
        ),
        pytest.param('"""Doc."""\nx = 1\n', '"""Doc."""\nimport mine\nx = 1\n', id="after the docstring"),
        pytest.param("x = 1\n", "import mine\nx = 1\n", id="no imports"),
        pytest.param("# comment\n\nx = 1\n", "# comment\n\nimport mine\nx = 1\n", id="below the first comment"),
        pytest.param(
            "import os\nif TYPE_CHECKING:\n    import a\nx = 1\n",
            "import os\nif TYPE_CHECKING:\n    import a\nimport mine\nx = 1\n",
            id="not under TYPE_CHECKING",
        ),
        pytest.param(
            "try:\n    import a\nexcept ImportError:\n    a = None\nx = 1\n",
            "try:\n    import a\nexcept ImportError:\n    a = None\nimport mine\nx = 1\n",
            id="after try and except",
        ),
        pytest.param(
            "import os\ndef f():\n    import a\n",
            "import os\nimport mine\ndef f():\n    import a\n",
            id="not in a function",
        ),
        pytest.param("def f():\n    pass\n", "import mine\n\n\ndef f():\n    pass\n", id="before a function"),
        pytest.param(
            "import os\nif __name__ == '__main__':\n    import a\n",
            "import os\nimport mine\nif __name__ == '__main__':\n    import a\n",
            id="before the main guard",
        ),
        pytest.param(
            "from a import (\n    b,\n    c,\n)\nx = 1\n",
            "from a import (\n    b,\n    c,\n)\nimport mine\nx = 1\n",
            id="after a long import",
        ),
    ],
)
def test_import_has_its_place(text: str, expected: str) -> None:
    assert edited(text, ("add-import", "", "import mine")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "import argparse\nimport os\n\nimport torch\n",
            "import argparse\nimport itertools\nimport os\n\nimport torch\n",
            id="in order",
        ),
        pytest.param(
            "import argparse\n\nimport torch\n",
            "import argparse\nimport itertools\n\nimport torch\n",
            id="last of the standard ones",
        ),
        pytest.param("import torch\n", "import itertools\nimport torch\n", id="before the first other"),
        pytest.param(
            "from __future__ import annotations\nimport torch\n",
            "from __future__ import annotations\nimport itertools\nimport torch\n",
            id="after __future__",
        ),
        pytest.param("x = 1\n", "import itertools\nx = 1\n", id="no imports"),
    ],
)
def test_standard_import_stands_among_the_standard_ones(text: str, expected: str) -> None:
    assert edited(text, ("add-import", "", "import itertools")) == expected


def test_imports_keep_their_order() -> None:
    changes = [("add-import", "", "import c"), ("add-import", "", "import a"), ("add-import", "", "import b")]
    assert edited("import os\n", *changes) == "import os\nimport c\nimport a\nimport b\n"


@pytest.mark.parametrize("text", ["", "# comment\n", "\n\n"], ids=["empty", "comment", "blank"])
def test_file_without_statements_takes_no_import(text: str) -> None:
    with pytest.raises(EngineError, match="no statement"):
        edited(text, ("add-import", "", "import mine"))


# Refusals


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([("replace", "f(a)", "b"), ("remove", "f(a)", "")], id="replace and remove"),
        pytest.param([("replace", "f(a)", "b"), ("replace", "f(a)", "c")], id="replaced twice"),
        pytest.param(
            [("guard", "f(a)", f"if x:\n    {ORIGINAL}"), ("guard", "f(a)", f"if y:\n    {ORIGINAL}")],
            id="guarded twice",
        ),
        pytest.param([("remove", "f(a)", ""), ("replace", "a", "b")], id="an expression in a removed statement"),
        pytest.param([("replace", "f(a)", "b"), ("replace", "f", "g")], id="an expression in a replaced statement"),
        pytest.param([("remove", "f(a)", ""), ("guard", "f(a)", f"if x:\n    {ORIGINAL}")], id="remove and guard"),
    ],
)
def test_overlapping_edits_are_an_error_of_ours(changes: list[Change]) -> None:
    with pytest.raises(EngineError, match=r"TST00\d .*TST00\d"):
        edited("f(a)\n", *changes)


def test_statement_in_a_removed_block_may_not_be_edited() -> None:
    with pytest.raises(EngineError):
        edited("if a:\n    b\n", ("remove", "if a:\n    b", ""), ("insert-before", "b", "x"))


def test_expression_in_a_guarded_statement_may_be_edited() -> None:
    changes = [("guard", "f(a)", f"if x:\n    {ORIGINAL}"), ("replace", "a", "b")]
    assert edited("f(a)\n", *changes) == "if x:\n    f(b)\n"


@pytest.mark.parametrize(
    ("text", "at", "place"),
    [
        pytest.param("x = 1; f(a)\n", "x = 1; f(a)", "1:1", id="semicolon"),
        pytest.param("y\nif x: f(a)\n", "f(a)", "2:7", id="behind a colon"),
        pytest.param("for x in y: f(a)\n", "f(a)", "1:13", id="loop on one line"),
    ],
)
@pytest.mark.parametrize("kind", ["insert-before", "insert-after", "remove"])
def test_statement_that_shares_its_line_is_refused_with_its_place(text: str, at: str, place: str, kind: str) -> None:
    with pytest.raises(UserError, match=rf"^train\.py:{place}: TST001 .* shares its line"):
        edited(text, (kind, at, "x = 2"))


def test_expression_may_be_edited_in_a_shared_line() -> None:
    assert edited("x = 1; y = 2\n", ("replace", "2", "3")) == "x = 1; y = 3\n"


# The whole plan

BASE = code('''
    """Train."""
    import argparse
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP


    def validate(model):
        """Return the accuracy."""
        with torch.no_grad():
            return float(model(1))


    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float, default=0.1,
                            help="rate")
        args = parser.parse_args()
        model = Net().cuda()  # on the device
        #! about the wrapper
        model = DDP(model, device_ids=[0])
        optimizer = torch.optim.SGD(model.parameters(), lr=args.lr,
                                    momentum=0.9)  # fast
        #! about the scheduler
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        best_acc = 0
        for epoch in range(args.epochs):
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                #! about the backward pass
                loss.backward()
                optimizer.step()
            scheduler.step()  # once
            acc = validate(model)
            #! about the best
            if acc > best_acc:
                best_acc = acc
                print("best", acc)


    if __name__ == "__main__":
        main()
''')

#: Lines of `BASE` that an apply changes: what they hold.
CHANGED = ("Net()", "DDP(", "SGD(", "momentum=", "StepLR(", "range(args", "scheduler.step()")


@st.composite
def variants(draw: st.DrawFn) -> str:
    """Scripts that do the same as `BASE`, written in another style."""
    lines = BASE.splitlines()
    if draw(st.booleans()):
        lines = [line for line in lines if ("add_argument" not in line and "rate" not in line) or "args.lr" in line]
    if not draw(st.booleans()):
        start = lines.index("def main():")
        end = lines.index('if __name__ == "__main__":')
        lines = lines[:start] + [line.removeprefix("    ") for line in lines[start + 1 : end]]
    if draw(st.booleans()):
        lines = [line for line in lines if "scheduler" not in line]
    if draw(st.booleans()):
        lines = [line.replace("Net().cuda()", "Net()") for line in lines]
    if draw(st.booleans()):
        lines = [line.replace("loss.backward()", "scaler.scale(loss).backward()") for line in lines]
    marks = draw(st.sampled_from(["", "# note: ", "# über: "]))
    lines = [line.replace("#! ", marks) for line in lines if marks or "#! " not in line]
    if draw(st.booleans()):
        lines = [line.replace('"', "'") for line in lines]
    if draw(st.booleans()):
        lines = [part for line in lines for part in ([line, ""] if line.endswith("optimizer.step()") else [line])]
    unit = draw(st.sampled_from(["    ", "  ", "\t", "   "]))
    lines = [unit * ((len(line) - len(line.lstrip())) // 4) + line.lstrip() for line in lines]
    return draw(st.sampled_from(["\n", "\r\n"])).join([*lines, ""])


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(text=variants(), bom=st.booleans())
def test_plan_is_stable_and_keeps_every_other_line(text: str, bom: bool) -> None:
    data = (codecs.BOM_UTF8 if bom else b"") + text.encode()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            plan = plan_of(folder, data)
        except UserError:
            return
        assert plan.questions == []
        after = next(file.after for file in plan.files if file.path.name == "train.py")
        assert after.startswith(codecs.BOM_UTF8) is bom
        again = plan_of(folder, after)
        assert again.questions == []
        assert [file.path.name for file in again.files if file.path.name == "train.py"] == []
    compile(after, "train.py", "exec")
    if "\r\n" in text:
        assert after.count(b"\n") == after.count(b"\r\n")
    rest = iter(split_lines(after.decode("utf-8-sig")))
    for line in split_lines(text):
        if not any(word in line for word in CHANGED):
            assert any(line == other for other in rest), f"{line!r} is gone or out of order"


def test_variants_are_really_rewritten(tmp_path: Path) -> None:
    changed = rewritten(plan_of(tmp_path, BASE))
    assert "find_unused_parameters=pai_distributed.finds_unused_parameters()" in changed
    assert "setup_optimizer" in changed


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(BASE.encode(), id="newline"),
        pytest.param(BASE.replace("\n", "\r\n").encode(), id="crlf"),
        pytest.param(codecs.BOM_UTF8 + BASE.encode(), id="bom"),
        pytest.param(BASE.replace("    ", "\t").encode(), id="tabs"),
        pytest.param(b"# coding: latin-1\n" + BASE.replace("fast", "schnell für").encode("latin-1"), id="latin-1"),
        pytest.param(BASE.rstrip().encode(), id="no final newline"),
    ],
)
def test_bytes_outside_the_edits_stay(tmp_path: Path, text: bytes) -> None:
    plan = plan_of(tmp_path, text)
    after = next(file.after for file in plan.files if file.path.name == "train.py")
    assert after.startswith(text[:20])
    assert after.endswith(text[-20:])
    rest = iter(after.splitlines(keepends=True))
    for line in text.splitlines(keepends=True):
        if not any(word.encode() in line for word in CHANGED):
            assert any(line == other for other in rest), line


def test_wrapper_of_a_part_alone_is_no_rewriting(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, BASE.replace("model = DDP(model,", "model.features = DDP(model.features,"))
    assert [len(plan.questions) > 0, len(plan.files)] == [True, 0]


def changed_by(folder: Path, *swaps: tuple[str, str]) -> str:
    text = BASE
    for old, new in swaps:
        assert old in text
        text = text.replace(old, new)
    return rewritten(plan_of(folder, text))


def test_trange_of_the_module_is_not_the_module_called(tmp_path: Path) -> None:
    changed = changed_by(
        tmp_path, ("range(args.epochs)", "tqdm.trange(args.epochs)"), ("import torch\n", "import torch\nimport tqdm\n")
    )
    assert " in tqdm(" not in changed


def test_apex_wrapper_gets_no_keyword_that_it_does_not_know(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, BASE.replace("torch.nn.parallel import", "apex.parallel import"))
    wrong = not plan.questions and "find_unused_parameters" in rewritten(plan)
    assert not wrong


def test_model_passed_in_a_call_is_perforated_where_it_has_a_name(tmp_path: Path) -> None:
    text = (
        BASE.replace("model = Net().cuda()  # on the device\n", "pass\n")
        .replace("def main():", "def main(model):")
        .replace("main()\n", "main(Net())\n")
    )
    plan = plan_of(tmp_path, text)
    wrong = not plan.questions and "main(Net())\n" in rewritten(plan).partition("perforate_model(")[0]
    assert not wrong


def test_model_is_perforated_before_its_optimizer_is_built(tmp_path: Path) -> None:
    text = BASE.replace(
        "def main():",
        "def build():\n    net = Net()\n    optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "    return net, optimizer\n\n\ndef main():",
    )
    start, end = text.index("    optimizer = torch.optim.SGD(model"), text.index("    #! about the scheduler")
    text = (text[:start] + text[end:]).replace("model = Net().cuda()", "model, optimizer = build()")
    plan = plan_of(tmp_path, text)
    if not plan.questions:
        changed = rewritten(plan)
        assert changed.index("perforate_model(") < changed.index("optim")


def test_wrapping_helper_gets_the_perforated_model(tmp_path: Path) -> None:
    text = BASE.replace("    model = DDP(model, device_ids=[0])", "    model = wrap(model)").replace(
        "def main():", "def wrap(m):\n    m = DDP(m)\n    return m\n\n\ndef main():"
    )
    changed = rewritten(plan_of(tmp_path, text))
    assert changed.index("UPA.perforate_model(") < changed.index("model = wrap(model)")


# What the survey finds, in the text that comes out

MODEL = "    model = Net().cuda()  # on the device\n"
WRAPPED = "    #! about the wrapper\n    model = DDP(model, device_ids=[0])\n"
OPTIMIZER = """\
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr,
                                momentum=0.9)  # fast
"""
VALIDATION = """\
        acc = validate(model)
        #! about the best
        if acc > best_acc:
            best_acc = acc
            print("best", acc)
"""


def in_order(text: str, *parts: str) -> bool:
    """Whether each part is in a text just once, after the one before it."""
    places = [text.index(part) for part in parts]
    return places == sorted(places) and all(text.count(part) == 1 for part in parts)


@pytest.mark.parametrize(
    ("wrapper", "model"),
    [
        ("DDP(model, device_ids=[0])", "model"),
        ("torch.nn.DataParallel(model).cuda()", "model.cuda()"),
        ("torch.nn.DataParallel(model).cuda() if there else model", "model.cuda() if there else model"),
        ("model if few else torch.nn.DataParallel(model).cuda()", "model if few else model.cuda()"),
        ("torch.nn.DataParallel(model) if there else DDP(model)", "model"),
        ("torch.nn.DataParallel(model).cuda() if there else DDP(model.cpu())", "model.cuda()"),
    ],
)
def test_initialisation_moves_inputs_as_the_wrapper_did(tmp_path: Path, wrapper: str, model: str) -> None:
    changed = rewritten(plan_of(tmp_path, script("acc = validate()").replace("DDP(model)", wrapper), BY_ACC))
    assert f"else:\n    model = pai_distributed.on_one_device({model})\n" in changed


@pytest.mark.parametrize("model", ["model", "model.to(device)"])
def test_initialisation_takes_the_bare_model_where_the_script_does(tmp_path: Path, model: str) -> None:
    wrapper = f"torch.nn.DataParallel({model}) if torch.cuda.device_count() > 1 else {model}"
    changed = rewritten(plan_of(tmp_path, script("acc = validate()").replace("DDP(model)", wrapper), BY_ACC))
    chosen = f"pai_distributed.on_one_device({model}) if torch.cuda.device_count() > 1 else {model}"
    assert f"else:\n    model = {chosen}\n" in changed


@pytest.mark.parametrize("name", ["forward", "gather", "scatter"])
def test_the_projects_own_data_parallel_wraps_in_the_initialisation_too(tmp_path: Path, name: str) -> None:
    """It may be called as no other is."""
    own = f"class Own(torch.nn.DataParallel):\n    def {name}(self, *given, **named):\n        pass\n\n\n"
    text = script("acc = validate()").replace("DDP(model)", "Own(model)").replace("\n\n", f"\n\n{own}", 1)
    changed = rewritten(plan_of(tmp_path, text, BY_ACC))
    kept = "    GPA.pai_tracker.initialize_tracker_settings()\nmodel = Own(model)\n"
    assert kept in changed
    assert "on_one_device(" not in changed


def test_own_function_called_setup_optimizer_is_not_the_trackers(tmp_path: Path) -> None:
    own = "def setup_optimizer(model):\n    return torch.optim.SGD(model.parameters(), lr=0.1)\n\n\ndef main():"
    changed = changed_by(tmp_path, ("def main():", own), (OPTIMIZER, "    optimizer = setup_optimizer(model)\n"))
    assert "    optimizer = setup_optimizer(model)\n    GPA.pai_tracker.set_optimizer_instance(optimizer)\n" in changed
    assert "pai_tracker.setup_optimizer" not in changed


def test_own_function_called_setup_optimizer_stays_beside_the_generated_one(tmp_path: Path) -> None:
    own = "def setup_optimizer(model):\n    return None\n\n\ndef main():"
    text = BASE
    for old, new in [("def main():", own), ("DistributedDataParallel", "DataParallel"), (", device_ids=[0]", "")]:
        text = text.replace(old, new)
    changed = rewritten(plan_of(tmp_path, text, IN_PROCESS))
    assert "def setup_pai_optimizer(model):" in changed
    assert "optimizer, scheduler = setup_pai_optimizer(model)" in changed


def test_optimizer_built_before_it_is_prepared_is_handed_over_before(tmp_path: Path) -> None:
    prepared = OPTIMIZER + "    model, optimizer = prepare(model, optimizer)\n" + WRAPPED
    changed = changed_by(tmp_path, (WRAPPED + OPTIMIZER, prepared))
    assert in_order(
        changed,
        "UPA.perforate_model(",
        "load_latest_switch(",
        "torch.optim.SGD(",
        "set_optimizer_instance(optimizer)",
        "prepare(model",
        " = DDP(",
    )


def test_optimizer_built_in_one_of_two_branches_is_handed_over_after_both(tmp_path: Path) -> None:
    branches = """\
    if args.lr > 1:
        optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    else:
        optimizer = torch.optim.Adam(groups, lr=args.lr)
"""
    changed = changed_by(tmp_path, (OPTIMIZER, branches))
    assert f"{branches}    GPA.pai_tracker.set_optimizer_instance(optimizer)\n" in changed


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("checkpoint = torch.load('pretrained.pt')\n    model.load_state_dict(checkpoint)", id="weights"),
        pytest.param(
            "if args.pretrained:\n        checkpoint = torch.load(args.pretrained)\n"
            "        model.load_state_dict(checkpoint['model'])",
            id="weights under a condition",
        ),
        pytest.param("model.fc = nn.Linear(8, 2)", id="new head"),
    ],
)
def test_model_is_perforated_after_its_last_change(tmp_path: Path, statement: str) -> None:
    changed = changed_by(tmp_path, (MODEL, f"{MODEL}    {statement}\n"))
    assert f"{MODEL}    {statement}\n    pai_distributed.configure_library()\n" in changed


def test_own_checkpoint_is_loaded_into_the_perforated_model(tmp_path: Path) -> None:
    load = "    if args.resume:\n        model.load_state_dict(torch.load(args.resume))\n"
    changed = changed_by(tmp_path, (MODEL, MODEL + load))
    assert in_order(changed, "UPA.perforate_model(", "load_latest_switch(", "model.load_state_dict(", " = DDP(")


@pytest.mark.parametrize(
    ("first", "second", "set_before"),
    [
        ("if rank == 0:\n                acc = validate(model)", "acc = validate(model)", True),
        ("acc = validate(model)", "acc = validate(model)", False),
        ("acc = validate(model)", "raise ValueError(rank)\n        acc = validate(model)", False),
    ],
)
@pytest.mark.parametrize("every", ["", "epoch % 2 == 0 and "])
def test_score_that_some_ranks_do_not_make_is_none_there(
    tmp_path: Path, first: str, second: str, set_before: bool, every: str
) -> None:
    inner = f"if {every}args.ddp:\n            {first}\n        else:\n            {second}\n"
    changed = changed_by(tmp_path, ("acc = validate(model)\n", inner))
    assert ("        pai_score = None\n        if " in changed) == set_before
    assert changed.count("pai_score = acc") == 2 * set_before


#: The best is kept in the last branch alone.
BRANCHES_OF_ONE_MEASURE = """\
        if CHOICE:
            if rank == 0:
                _, acc = evaluator.compute(WITH)
        else:
            _, acc = evaluator.compute()
            if acc > best_acc:
                best_acc = acc
"""


@pytest.mark.parametrize(
    ("choice", "given", "taken"),
    [
        pytest.param("args.ddp", "", 2, id="by an option"),
        pytest.param("args.a:\n            pass\n        elif args.ddp", "", 2, id="by two"),
        pytest.param("args.ddp", "top=5", 1, id="in another way"),
        pytest.param("epoch % 2", "", 1, id="by the turn"),
        pytest.param("finished()", "", 1, id="by what is asked in each turn"),
        pytest.param("due", "", 1, id="by what turns change"),
        pytest.param("rank < 4", "", 1, id="by the rank"),
    ],
)
def test_a_score_is_taken_in_each_branch_of_which_a_training_has_one(
    tmp_path: Path, choice: str, given: str, taken: int
) -> None:
    """That of the branch of several processes was lost, of which the script keeps no best."""
    before, _, after = BASE.partition("        acc = validate(model)\n")
    text = BRANCHES_OF_ONE_MEASURE.replace("CHOICE", choice).replace("WITH", given)
    end = after.partition('print("best", acc)\n')[2]
    new = rewritten(plan_of(tmp_path, f"{before}        due = not due\n{text}{end}"))
    assert new.count("pai_score = acc\n") == taken


#: Each branch makes the same ratio of what it has.
BRANCHES_OF_ONE_RATIO = """\
        if args.ddp:
            FIRST
            acc = right / count
        else:
            loader, right = held_out, 0
            for x in loader:
                right += hits(x)
            acc = right / count
            if acc > best_acc:
                best_acc = acc
"""
AS_THERE = "loader, right = held_out, 0\n            for x in loader:\n                right += hits(x)"


@pytest.mark.parametrize(
    ("first", "chosen"),
    [
        pytest.param(AS_THERE, 0, id="of the same"),
        pytest.param("right = known", 1, id="of what is there"),
        pytest.param(AS_THERE.replace("held_out", "rows"), 1, id="of other batches"),
        pytest.param(AS_THERE.replace("in loader", "in rows"), 1, id="of a loop over others"),
    ],
)
def test_a_score_is_taken_in_no_branch_that_makes_it_of_something_else(tmp_path: Path, first: str, chosen: int) -> None:
    """It may be that of the training."""
    before, _, after = BASE.partition("        acc = validate(model)\n")
    end = after.partition('print("best", acc)\n')[2]
    new = rewritten(plan_of(tmp_path, f"{before}{BRANCHES_OF_ONE_RATIO.replace('FIRST', first)}{end}"))
    assert new.count("pai_score = acc\n") == chosen


@pytest.mark.parametrize(
    ("choice", "taken"),
    [
        (
            "if args.a:\n            if epoch % 9 == 0:\n                {}        elif epoch % 4:\n            {}",
            True,
        ),
        ("if args.some:\n            {}            log(acc)\n        elif epoch % 4 == 0:\n            {}", True),
        ("if args.some:\n            {}        else:\n            {}", False),
        (
            "if args.some:\n            {}            acc = mean(acc)\n"
            "        elif epoch % 4 == 0:\n            {}            acc = mean(acc)\n",
            True,
        ),
    ],
)
def test_a_turn_without_a_score_leaves_its_name_the_value_that_the_script_reads(
    tmp_path: Path, choice: str, taken: bool
) -> None:
    """Behind the choice `acc > best_acc` compares what an earlier turn has measured."""
    changed = changed_by(tmp_path, ("acc = validate(model)\n", choice.replace("{}", "acc = validate(model)\n")))
    assert "acc = None" not in changed
    assert changed.count("pai_score = acc\n") == 2 * taken
    assert f"report_validation_score({'pai_score' if taken else 'acc'}, model)" in changed


def test_own_checks_of_the_model_hold_with_dendrites(tmp_path: Path) -> None:
    count = "    assert len(list(model.parameters())) == 2  # head\n"
    other = "    assert len(list(model.parameters())) == len(groups)\n"
    check = "        check(model.state_dict(), path)\n"
    text = BASE.replace(WRAPPED, WRAPPED + count + other).replace(VALIDATION, VALIDATION + check)
    plan = plan_of(
        tmp_path, text.replace("def main", "def check(state, path):\n    assert state['fc.bias'] == 0\n\n\ndef main", 1)
    )
    changed = rewritten(plan)
    assert "    assert len(list(model.parameters())) >= 2  # head\n" in changed
    assert other in changed
    assert "        check(pai_distributed.own_state_dict(model), path)\n" in changed
    assert [note.code for note in plan.notes] == ["PAI019"]


def test_validation_every_few_epochs_keeps_the_scheduler(tmp_path: Path) -> None:
    rare = "        if epoch % 5 == 0:\n" + "".join(f"    {line}\n" for line in VALIDATION.splitlines())
    changed = changed_by(tmp_path, (VALIDATION, rare))
    assert "        scheduler.step()  # once\n        pai_score = None\n        if epoch % 5 == 0:\n" in changed
    assert "StepLR(optimizer, 30)\n" in changed
    assert "set_scheduler" not in changed
    end = "            pai_score = acc\n        pai_distributed.report_validation_score(pai_score, model)\n"
    assert rare + end in changed


def test_validation_on_the_first_rank_keeps_no_scheduler(tmp_path: Path) -> None:
    own = "        if rank == 0:\n" + "".join(f"    {line}\n" for line in VALIDATION.splitlines())
    changed = changed_by(tmp_path, (VALIDATION, own))
    assert "        pai_score = None\n        if rank == 0:\n" in changed
    assert "scheduler.step()" not in changed
    end = "            pai_score = acc\n        pai_distributed.report_validation_score(pai_score, model)\n"
    assert own + end in changed


def test_an_optimizer_of_an_own_tensor_stays_as_it_is(tmp_path: Path) -> None:
    tuning = """
        def tune(x):
            point = torch.nn.Parameter(x.detach())
            tuned = torch.optim.SGD([point], lr=0.1)
            for _ in range(3):
                tuned.zero_grad()
                criterion(point).backward()
                tuned.step()


    """
    changed = changed_by(tmp_path, ("def main", f"{code(tuning).lstrip()}\n\ndef main"))
    assert code(tuning).strip() in changed


LOADED_TWICE = """
    import os
    import torch


    def load(model, optimizer, path):
        state = None
        epoch = 0
        if os.path.isfile(path):
            state = torch.load(path)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            epoch = state["epoch"]
        return model, optimizer, epoch


    model = torch.nn.DataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, begin = load(model, optimizer, "last.pt")
    best = 0
    for epoch in range(begin, 10):
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        acc = validate(model)
        best = max(best, acc)
    model, _, epoch = load(model, optimizer, "best.pt")
    print(validate(model))
"""


def test_a_model_that_a_function_loads_again_after_training_is_the_same_after_rewriting(tmp_path: Path) -> None:
    changed = rewritten(plan_of(tmp_path, code(LOADED_TWICE), IN_PROCESS))
    assert "model, restructured, training_complete = pai_distributed.add_validation_score(acc, model)" in changed


def test_local_rank_gets_its_other_spelling(tmp_path: Path) -> None:
    rank = 'parser.add_argument("--local_rank", type=int)\n    parser.add_argument("--lr"'
    changed = changed_by(tmp_path, ('parser.add_argument("--lr"', rank))
    assert 'parser.add_argument("--local_rank", "--local-rank", type=int)' in changed


def test_a_required_local_rank_keeps_its_other_arguments(tmp_path: Path) -> None:
    rank = 'parser.add_argument("-r", "--local_rank", dest="rank", required=True)\n    parser.add_argument("--lr"'
    changed = changed_by(tmp_path, ('parser.add_argument("--lr"', rank))
    assert 'parser.add_argument("-r", "--local_rank", "--local-rank", dest="rank", required=True)' in changed


def test_local_rank_of_a_group_that_an_own_function_makes_chooses_the_launcher(tmp_path: Path) -> None:
    group = (
        "groups = []\n\ndef group(name):\n    groups.append(parser.add_argument_group(name))\n    return groups[-1]\n"
    )
    rank = 'group("all").add_argument("--local_rank", default=-1)'
    own = f"{group}\nparser = argparse.ArgumentParser()\n{rank}\n\n\ndef main"
    plan = plan_of(tmp_path, swapped(BASE, ("def main", own), ("    parser = argparse.ArgumentParser()\n", "")))
    assert 'group("all").add_argument("--local_rank", "--local-rank", default=-1)' in rewritten(plan)
    assert "torch.distributed.launch" in next(f.after.decode() for f in plan.files if f.path.suffix == ".sh")


def test_local_rank_of_a_method_by_another_name_chooses_the_launcher(tmp_path: Path) -> None:
    add = 'add = parser.add_argument\n    add("--local_rank", type=int)\n    parser.add_argument("--lr"'
    plan = plan_of(tmp_path, swapped(BASE, ('parser.add_argument("--lr"', add)))
    changed = rewritten(plan)
    assert 'add("--local_rank", "--local-rank", type=int)' in changed
    assert changed.index('"--lr"') < changed.index('parser.add_argument("--perforate_model_parallel"')
    assert ("launcher", "launch") in [decision[:2] for decision in plan.decisions]


def test_local_rank_of_a_list_of_spellings_chooses_the_launcher(tmp_path: Path) -> None:
    rank = 'for flags in [["-r", "--local_rank"]]:\n        parser.add_argument(*flags)\n    parser.add_argument("--lr"'
    plan = plan_of(tmp_path, swapped(BASE, ('parser.add_argument("--lr"', rank)))
    assert '[["-r", "--local_rank", "--local-rank"]]' in rewritten(plan)
    assert ("launcher", "launch") in [decision[:2] for decision in plan.decisions]


@pytest.mark.parametrize("options", ['"--lr"', '"--local-rank"', '"--local_rank", "--local-rank"'])
def test_no_other_spelling_is_added(tmp_path: Path, options: str) -> None:
    changed = changed_by(tmp_path, ('parser.add_argument("--lr"', f"parser.add_argument({options}"))
    assert f"parser.add_argument({options}" in changed
    assert "--local-rank" not in changed.replace(options, "")


@pytest.mark.parametrize("rounds", ["", "history", "planned"])
def test_what_the_last_planned_epoch_alone_runs_is_named(tmp_path: Path, rounds: str) -> None:
    text = script("acc = validate(model)\nbest = max(best, acc)\nif epoch == epochs - 1:\n    final(model)")
    plan = plan_of(tmp_path, text.replace("range(10)", "range(epochs)"), Options(rounds=rounds))
    assert any("`epoch == epochs - 1` runs in no round" in note.message for note in plan.notes) is (rounds != "planned")


@pytest.mark.parametrize("rounds", ["", "planned"])
def test_what_loads_the_file_of_a_planned_epoch_is_named(tmp_path: Path, rounds: str) -> None:
    turn = "acc = validate(model)\nbest = max(best, acc)\ntorch.save(state, f'{epoch}.pt')"
    text = script(turn, after="torch.load(f'{epochs - 1}.pt')").replace("range(10)", "range(epochs)")
    plan = plan_of(tmp_path, text, Options(rounds=rounds))
    assert any("what a planned epoch has saved" in note.message for note in plan.notes) is (rounds != "planned")


@pytest.mark.parametrize("wrapper", ["DistributedDataParallel", "DataParallel"])
@pytest.mark.parametrize(("test", "thaws"), [("epoch == 3", True), ("args.epochs == 3", False)])
def test_layers_that_thaw_get_dendrites(tmp_path: Path, wrapper: str, test: str, thaws: bool) -> None:
    text = BASE.replace("DistributedDataParallel", wrapper)
    if wrapper == "DataParallel":
        text = text.replace(", device_ids=[0]", "")
    loop = next(line for line in text.splitlines(keepends=True) if line.lstrip().startswith("for epoch in "))
    inner = " " * (len(loop) - len(loop.lstrip()) + 4)
    text = text.replace(loop, f"{loop}{inner}if {test}:\n{inner}    model.requires_grad_(True)\n")
    plan = plan_of(tmp_path, text)
    assert (", thaws=True)" in rewritten(plan)) is thaws
    assert any("lets frozen layers train" in note.message for note in plan.notes) is thaws
    # an epoch past the plan may thaw what the plan never comes to
    assert re.search(r"planned_epochs\(.*, further=False\)", rewritten(plan)) or not thaws


def test_keyword_that_comes_through_a_mapping_is_not_given_twice(tmp_path: Path) -> None:
    script = swapped(SCRIPT, ("DistributedDataParallel(model)", "DistributedDataParallel(model, **options)"))
    given = swapped(script, ("    model = nn.", "    options = dict(find_unused_parameters=True)\n    model = nn."))
    unused = "pai_distributed.finds_unused_parameters({})"
    single = f"**options, find_unused_parameters={unused.format('')})"
    assert single in " ".join(plan_of(tmp_path, script).files[0].after.decode().split())
    merged = f'DistributedDataParallel(model, **{{**options, "find_unused_parameters": {unused.format("options")}}})'
    assert merged in plan_of(tmp_path, given).files[0].after.decode()
    chosen = plan_of(tmp_path, given.replace("**options", "**options if options else {}")).files[0].after.decode()
    assert f'"find_unused_parameters": {unused.format("(options if options else {})")}}})' in chosen
    again = given.replace("**options", merged.removeprefix("DistributedDataParallel(model, ").removesuffix(")"))
    assert merged in plan_of(tmp_path, again).files[0].after.decode()


@pytest.mark.parametrize(
    ("given", "written"),
    [
        pytest.param("True", "True", id="the script's own"),
        pytest.param("False", "pai_distributed.finds_unused_parameters()", id="not asked for"),
        pytest.param("args.find", "pai_distributed.finds_unused_parameters(args.find)", id="chosen"),
        pytest.param("a if b else c", "pai_distributed.finds_unused_parameters(a if b else c)", id="expression"),
    ],
)
def test_unused_parameters_are_searched_where_the_script_or_the_run_asks_for_it(
    tmp_path: Path, given: str, written: str
) -> None:
    text = swapped(SCRIPT, ("Parallel(model)", f"Parallel(model, find_unused_parameters={given})"))
    after = rewritten(plan_of(tmp_path, text))
    assert f"find_unused_parameters={written})" in after


CHOSEN = """
import sys
if sys.platform == "win32":
    parallel = torch.nn.DataParallel
else:
    parallel = DDP
"""


@pytest.mark.parametrize("given", ["", ", **options"])
def test_a_wrapper_of_either_kind_is_given_what_it_takes_when_it_runs(tmp_path: Path, given: str) -> None:
    text = script("pai = evaluate(model)\n", before="options = dict(find_unused_parameters=True)")
    text = text.replace("\n\nmodel = Net()", f"\n{CHOSEN}\nmodel = Net()")
    text = text.replace("= DDP(model)", f"= parallel(model, device_ids=[0]{given})")
    after = rewritten(plan_of(tmp_path, text, Options(metric="pai", mode="max")))
    assert f"model = pai_distributed.either_wrapper(parallel)(model, device_ids=[0]{given})" in after
    assert "    pai_distributed.keep_tracker_state_local(model)\n" in after
    assert "    model = pai_distributed.on_one_device(model)\n" in after  # as DataParallel moves its inputs
    assert "unused_parameters=pai" not in after
    again = plan_of(tmp_path, after, Options(metric="pai", mode="max"))
    assert not again.questions
    assert "train.py" not in [file.path.name for file in again.files]


def iterating(tmp_path: Path, loop: str, before: str = "", after: str = "") -> str:
    """Return what becomes of a script from its training loop on."""
    head = script(before=before).partition("for epoch in")[0]
    return rewritten(plan_of(tmp_path, head + code(loop) + code(after))).partition("optimArgs)\n")[2]


STEP = """
        loss = criterion(model(batch()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
TRAINED = """
    loss = criterion(model(batch()))
    optimizer.zero_grad()
    pai_distributed.fill_missing_gradients(model)
    loss.backward()
    if pai_distributed.initializing():
        pai_distributed.finish_initialization()
    optimizer.step()
"""


def test_endless_loop_with_a_budget(tmp_path: Path) -> None:
    loop = f"""
    while True:
        if n % 9 == 0 and rank == 0:
            loss = evaluate(model)
            if loss < best:
                best = loss{STEP.rstrip()}
        n += 1
        if n > max_steps:
            break
    """
    changed = iterating(tmp_path, loop, "n = 0", "done()\n")
    report = "pai_distributed.report_validation_score(pai_score, model, leave=False)"
    expected = (
        "n = 0\nwhile True:\n    pai_score = None\n    if n % 9 == 0 and rank == 0:\n        loss = evaluate(model)\n"
        "        if loss < best:\n            best = loss\n        pai_score = loss\n"
        f"    if n % 9 == 0 and {report}:\n        break{TRAINED}    n += 1\n    if n > max_steps:\n        break\n"
        "pai_distributed.end_of_training()\ndone()\n"
    )
    assert changed == expected


def test_condition_that_a_validation_changes_is_not_asked_again(tmp_path: Path) -> None:
    loop = f"""
    while n < 99:{STEP.rstrip()}
        n += 1
        if n % due == 0 and rank == 0:
            acc = evaluate(model)
            due = 5
            best = max(best, acc)
    """
    changed = iterating(tmp_path, loop)
    assert "while n < 99:\n" in changed
    end = (
        "        pai_score = acc\n    pai_distributed.report_validation_score(pai_score, model)\n"
        "pai_distributed.end_of_training()\n"
    )
    assert changed.endswith(end)


def test_loop_keeps_its_other_condition(tmp_path: Path) -> None:
    loop = f"""
    while epoch < epochs and not stopped():
        for x in loader:{STEP.replace(chr(10) + "    ", chr(10) + "        ").rstrip()}
        acc = evaluate(model)
        best = max(best, acc)
        epoch += 1
    """
    changed = iterating(tmp_path, loop)
    assert "while epoch < epochs and not stopped():\n" in changed
    end = "    epoch += 1\n    pai_distributed.report_validation_score(acc, model)\npai_distributed.end_of_training()\n"
    assert changed.endswith(end)


def test_validation_within_the_loop_over_batches_leaves_both_loops(tmp_path: Path) -> None:
    loop = f"""
    while n < 99:
        for x in loader:{STEP.replace(chr(10) + "    ", chr(10) + "        ").rstrip()}
            n += 1
            if n % 9 == 0:
                acc = evaluate(model)
                best = max(best, acc)
            if n >= 99:
                break
        log()
    """
    changed = iterating(tmp_path, loop, after="done()\n")
    assert "training_complete = False\nwhile n < 99:\n" in changed
    end = """\
            best = max(best, acc)
            training_complete = pai_distributed.report_validation_score(acc, model, leave=False)
            if training_complete:
                break
        if n >= 99:
            break
    if training_complete:
        break
    log()
pai_distributed.end_of_training()
done()
"""
    assert changed.endswith(end)


#: Goes over all files again and again, until a validation comes after so many steps.
FILES = f"""
    while True:
        for file in files:
            for x in loader_of(file):{STEP.replace(chr(10) + "    ", chr(10) + "            ").rstrip()}
                n += 1
                if n % 9 == 0:
                    acc = evaluate(model)
                    if acc > best:
                        best = acc
                        save(model)
                    if n >= 99:
                        END
            log()
"""


@pytest.mark.parametrize(("end", "later"), [("exit()", ""), ("break", ""), ("exit()", "save()")])
def test_score_is_handed_over_before_the_training_ends_by_it(tmp_path: Path, end: str, later: str) -> None:
    loop = FILES.replace("END", f"{end}\n                    {later}")
    changed = iterating(tmp_path, loop)
    handed = f"{' ' * 16}pai_distributed.report_validation_score(acc, model)\n"
    ending = f"{' ' * 16}if n >= 99:\n{' ' * 20}{end}\n"
    assert (f"{ending}{' ' * 16}{later}\n{handed}" if later else handed + ending) in changed


def test_validation_within_two_loops_leaves_all_three(tmp_path: Path) -> None:
    changed = iterating(tmp_path, FILES.replace("END", "exit()"), after="done()\n")
    assert "training_complete = False\nwhile True:\n" in changed
    end = """\
                    save(model)
                training_complete = pai_distributed.report_validation_score(acc, model, leave=False)
                if training_complete:
                    break
                if n >= 99:
                    exit()
        if training_complete:
            break
        log()
    if training_complete:
        break
pai_distributed.end_of_training()
done()
"""
    assert changed.endswith(end)


#: A validation every so many steps, and a name that the turn over the data gives after them.
SPARSE = f"""
    while n < 99:
        for x in loader:{STEP.replace(chr(10) + "    ", chr(10) + "        ").rstrip()}
            n += 1
            if n % 9 == 0:
                acc = evaluate(model)
                best = max(best, acc)
        log()
        folder = name_of(n)
"""


def test_validation_every_so_many_batches_of_an_epoch_is_handed_over_once_an_epoch(tmp_path: Path) -> None:
    by_epochs = SPARSE.replace("while n < 99:", "for epoch in range(9):")
    changed = iterating(tmp_path, by_epochs)
    assert "for epoch in pai_distributed.planned_epochs(range(9)):\n    pai_score = None\n    for x in" in changed
    assert changed.endswith("""\
            best = max(best, acc)
            pai_score = acc
    log()
    folder = name_of(n)
    pai_distributed.report_validation_score(pai_score, model)
""")


def test_what_an_epoch_gives_after_its_batches_is_given_before_the_loop_is_left(tmp_path: Path) -> None:
    changed = iterating(tmp_path, SPARSE, after="done(folder)\n")
    assert changed.endswith("""\
            if training_complete:
                break
    log()
    folder = name_of(n)
    if training_complete:
        break
pai_distributed.end_of_training()
done(folder)
""")


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "done()\n"), ("folder = None\n", "done(folder)\n")],
)
def test_what_nobody_reads_after_the_loop_is_not_waited_for(tmp_path: Path, before: str, after: str) -> None:
    text = script(before=f"{before}best = 0").partition("for epoch in")[0] + code(SPARSE) + code(after)
    changed = rewritten(plan_of(tmp_path, text))
    assert "                break\n    if training_complete:\n        break\n    log()\n" in changed


@pytest.mark.parametrize(
    "later",
    [
        f"for x in more:{STEP.replace(chr(10), chr(10) + '    ').rstrip()}",
        "if n % 2:\n            folder = 'odd'\n            continue",
    ],
)
def test_a_name_that_the_way_out_of_the_loop_would_pass_over_is_asked_about(tmp_path: Path, later: str) -> None:
    loop = SPARSE.replace("log()", later)
    text = script(before="best = 0").partition("for epoch in")[0] + code(loop) + "folder_of(folder)\n"
    [question] = plan_of(tmp_path, text).questions
    assert (question.code, question.message) == (
        "PAI012",
        "the loop is left here once training is complete, which may be in its first turn, but what comes later reads "
        "`folder`, which a turn gives its value only after this place. Give it a value before the loop.",
    )


def test_a_name_that_only_another_way_out_of_the_loop_passes_over_is_asked_about(tmp_path: Path) -> None:
    loop = """
        while True:
            if n % 9 == 0:
                acc = evaluate(model)
                best = max(best, acc)
            if n == 0 and only_once:
                break
            x, y = next(batches)
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
            n += 1
            if n >= 99:
                took = time() - begun
                break
        """
    text = script(before="best = 0").partition("for epoch in")[0] + code(loop)
    [question] = plan_of(tmp_path, f"{text}print(took)\n").questions
    assert "what comes later reads `took`, which a turn gives its value only after" in question.message
    assert plan_of(tmp_path, f"took = 0\n{text}print(took)\n").questions == []


KEEPS = """
def test(epoch):
    global best
    acc = run()
    if acc > best:
        best = acc
"""


@pytest.mark.parametrize(
    ("name", "asks"),
    [("score", True), ("val_score", True), ("f1_score", False), ("f_score", False), ("acc_score", False)],
)
def test_direction_of_what_is_only_called_a_score_is_asked_for(tmp_path: Path, name: str, asks: bool) -> None:
    text = script(f"model.eval()\n{name} = np.mean([0.5])\nprint({name})")
    questions = plan_of(tmp_path, text).questions
    assert [f"whether a higher or a lower `{name}` is better" in one.message for one in questions] == [True] * asks


MEASURED = """
def evaluate(model):
    model.eval()
    with torch.no_grad():
        return sum(float(model(x)) for x in held_out)

def learn(model):
    for x in more:
        loss = model(x).mean()
        loss.backward()
    return loss

best = 0
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max")
"""


@pytest.mark.parametrize(
    ("epoch", "left"),
    [
        pytest.param("best = max(best, evaluate(model))", "max(best, (pai_score := evaluate(model)))", id="best"),
        pytest.param("best = max(best, learn(model))", None, id="training"),
        pytest.param(
            "if epoch % 2:\n    plateau.step(evaluate(model))", "step((pai_score := evaluate(model)))", id="now"
        ),
        pytest.param(
            "plateau.step(evaluate(model))", "report_validation_score(evaluate(model), model)", id="that goes"
        ),
        pytest.param("plateau.step(epoch and evaluate(model))", "score(epoch and evaluate(model), model)", id="or not"),
    ],
)
def test_what_a_call_measures_is_measured_once(tmp_path: Path, epoch: str, left: str | None) -> None:
    plan = plan_of(tmp_path, script(epoch, MEASURED))
    assert [one.code for one in plan.questions] == ([] if left else ["PAI105"])
    if left is not None:
        text = rewritten(plan)
        assert left in text
        assert text.count("evaluate(model)") == 2  # where it is defined, and there


@pytest.mark.parametrize(("test", "taken"), [("2 < epoch < evaluate(model)", False), ("2 < evaluate(model) < 9", True)])
def test_what_the_end_of_a_chain_of_comparisons_measures_is_not_taken(tmp_path: Path, test: str, taken: bool) -> None:
    before = MEASURED.replace("return sum", "accuracy = sum").replace("held_out)", "held_out)\n    return accuracy")
    plan = plan_of(tmp_path, script(f"if {test}:\n    break", before))
    assert [one.code for one in plan.questions] == ([] if taken else ["PAI105"])


def test_what_a_call_measures_that_may_not_run_is_not_taken_there(tmp_path: Path) -> None:
    text = script("if epoch % 2:\n    epoch > 5 and plateau.step(evaluate(model))", MEASURED)
    assert ":=" not in rewritten(plan_of(tmp_path, text))


@pytest.mark.parametrize(
    ("epoch", "handed"),
    [
        pytest.param(
            "else:\n    acc = evaluate(model)\n    continue\nbreak",
            "        pai_distributed.report_validation_score(acc, model)\n        continue\n    break\n",
            id="which goes on",
        ),
        pytest.param(
            "else:\n    acc = evaluate(model)",
            "        pai_score = acc\n    pai_distributed.report_validation_score(pai_score, model)\n",
            id="alone",
        ),
    ],
)
def test_what_is_measured_in_the_else_of_the_batches_is_handed_over(tmp_path: Path, epoch: str, handed: str) -> None:
    """Its `continue` and `break` are those of the epochs."""
    text = script(epoch).replace(
        "        optimizer.step()\n", "        optimizer.step()\n        if over:\n            break\n"
    )
    assert handed in rewritten(plan_of(tmp_path, text, BY_ACC))


FITS = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def fit(model, optimizer):
    step, best = 0, 9
    for epoch in range(90):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
            step += 1
            if step % 9 == 0:
                val_loss = evaluate(model)
                best = min(best, val_loss)
            if step > 999:
                return best

model = Net()
model = DDP(model)
best = fit(model, torch.optim.SGD(model.parameters(), lr=0.1))
print(best)
"""


@pytest.mark.parametrize(
    ("swap", "leaves"),
    [
        pytest.param(("", ""), "return best", id="taken"),
        pytest.param(("range(90)", "range(10**6)"), "return best", id="at its validation"),
        pytest.param(("best = fit(", "fit("), "break", id="not taken"),
        pytest.param(("\nmodel = Net()", "    return best\n\nmodel = Net()"), "break", id="given after it too"),
        pytest.param(("return best", "return val_loss"), "break", id="with no value before the loop"),
    ],
)
def test_a_function_that_gives_its_result_within_the_loop_gives_it_when_training_is_complete(
    tmp_path: Path, swap: tuple[str, str], leaves: str
) -> None:
    changed = rewritten(plan_of(tmp_path, FITS.replace(*swap, 1)))
    found = re.search(r"return best|break", changed.partition("leave=False")[2])
    assert found is not None
    assert found[0] == leaves
    given = re.search(r"\n( {12,})best = pai_distributed\.kept_with_best\(\)\n\1return best\n", changed)
    assert (given is not None) == ("best" in leaves)


def test_turn_that_validates_before_it_trains_hands_the_score_over_before(tmp_path: Path) -> None:
    validates = "    if epoch % 10 == 0:\n        acc = evaluate(model)\n        save(model)\n    model.train()\n"
    text = script("pass").replace("    for x, y in loader:\n", f"{validates}    for x, y in loader:\n", 1)
    changed = rewritten(plan_of(tmp_path, text, BY_ACC))
    report = changed.index("    pai_distributed.report_validation_score(pai_score, model)\n")
    assert changed.index("    model.train()\n") < report < changed.index("    for x, y in loader:\n")


def test_function_returns_the_score_that_it_kept(tmp_path: Path) -> None:
    text = script("test(epoch)  # and keep the best", before=KEEPS)
    changed = rewritten(plan_of(tmp_path, text))
    assert "        best = acc\n    return acc\n" in changed
    report = "pai_distributed.report_validation_score(pai_score, model)"
    assert f"    pai_score = test(epoch)  # and keep the best\n    {report}\n" in changed


@pytest.mark.parametrize("end", ["", " \\"])
def test_a_call_of_several_lines_that_gets_a_name_keeps_its_indentation(tmp_path: Path, end: str) -> None:
    call = f"if x:\n    test({end}\n            epoch)"
    changed = rewritten(plan_of(tmp_path, script(call, before=KEEPS)))
    assert f"        pai_score = test({end}\n                epoch)\n" in changed


def test_function_returns_none_where_it_has_no_score(tmp_path: Path) -> None:
    keeps = KEEPS.replace("    acc = run()\n", "    if rank == 0:\n        acc = run()\n").replace(
        "    if acc", "        if acc"
    )
    keeps = keeps.replace("        best = acc", "            best = acc") + "    return\n"
    changed = rewritten(plan_of(tmp_path, script("if epoch % 2:\n    test(epoch)", before=keeps)))
    assert "    pai_score = None\n    if rank == 0:\n" in changed
    assert "        pai_score = acc\n    return pai_score\n" in changed
    assert "    pai_score = None\n    if epoch % 2:\n        pai_score = test(epoch)\n" in changed


def test_name_of_the_score_is_not_one_of_the_script(tmp_path: Path) -> None:
    changed = rewritten(plan_of(tmp_path, script("test(epoch)", before=KEEPS + "pai_score = 3\n")))
    assert "    pai_epoch_score = test(epoch)\n" in changed


LOADERS = """
sampler = WeightedRandomSampler(weights, len(train_set))
loader = DataLoader(train_set, batch_size=8, sampler=sampler)
val_loader = DataLoader(val_set, batch_size=8, shuffle=True, drop_last=False)
model.module.load_state_dict(torch.load("start.pt"))
"""


@pytest.mark.parametrize("wrapper", ["DDP(model)", "torch.nn.DataParallel(model)"])
def test_data_and_what_is_saved_stay_as_they_are(tmp_path: Path, wrapper: str) -> None:
    epoch = 'acc = validate(val_loader)\nbest = max(best, acc)\ntorch.save(model.module.state_dict(), "last.pt")'
    text = script(epoch, before=LOADERS)
    text = text.replace("model = DDP(model)", f"model = {wrapper}")
    kept = [line for line in text.splitlines() if "_set" in line or ".module." in line]
    changed = rewritten(plan_of(tmp_path, text))
    lines = changed.splitlines()
    assert len(kept) == 5
    assert [line for line in lines if line in kept] == kept
    assert any(wrapper.removesuffix("model)") in line for line in lines)


def test_what_only_speaks_of_epochs_is_no_epoch_loop(tmp_path: Path) -> None:
    others = """
    for epoch_file in glob("epoch*.pt"):
        remove(epoch_file)
    for epoch in range(3):
        draw(epoch)
    """
    changed = rewritten(plan_of(tmp_path, script("acc = validate()\nbest = max(best, acc)", others, others)))
    assert changed.count(code(others)) == 2
    assert changed.count("report_validation_score(") == 1


@pytest.mark.parametrize("note", ["'a'", "'''a\n        b'''"], ids=["plain", "string of two lines"])
def test_lines_of_a_call_that_is_split_stand_as_they_did(tmp_path: Path, note: str) -> None:
    built = f"model = Net(\n        8,\n        note={note},\n    )"
    text = script("acc = validate()\nbest = max(best, acc)").rstrip().replace("\n", "\n    ")
    text = f"def main():\n    {text}\n\nmain()\n".replace("model = Net()", f"{built}.to(device)")
    changed = rewritten(plan_of(tmp_path, text))
    assert f"note={note},\n" in changed
    assert (f"    {built}\n    pai_distributed" in changed) == (note == "'a'")


IN_FUNCTIONS = """
import torch

model = torch.nn.DataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(x, y):
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
def train():
    '''Train.'''
    best = 0
    for epoch in range(10):
        for x, y in loader:
            step(x, y)
        acc = validate(model)
        best = max(best, acc)
train()
"""


def test_names_of_the_module_stay_so_in_the_function_with_the_loop(tmp_path: Path) -> None:
    changed = rewritten(plan_of(tmp_path, IN_FUNCTIONS, IN_PROCESS))
    assert "    '''Train.'''\n    global model, optimizer\n    best = 0\n" in changed
    assert changed.count("global ") == 1


def test_names_of_a_function_stay_so_in_one_inside_it(tmp_path: Path) -> None:
    inner = IN_FUNCTIONS.replace("import torch\n", "").strip().replace("\n", "\n    ")
    changed = rewritten(plan_of(tmp_path, f"import torch\ndef main():\n    {inner}\nmain()\n", IN_PROCESS))
    assert "        nonlocal model, optimizer\n" in changed


GUARDED_IMPORT = "import torch\ntry:\n    import apex\nexcept ImportError:\n    apex = None\n"


@pytest.mark.parametrize("late", ["import late\n", "if flag:\n    import late\n"])
@pytest.mark.parametrize("early", ["import torch\n", GUARDED_IMPORT])
def test_imports_stand_before_what_uses_them(tmp_path: Path, early: str, late: str) -> None:
    text = script("acc = validate()\nbest = max(best, acc)", before=late).replace("import torch\n", early, 1)
    changed = rewritten(plan_of(tmp_path, text))
    own = changed.index("import pai_distributed\n")
    assert changed.index(early) < own < changed.index("model = Net()") < changed.index("import late")


@pytest.mark.parametrize(
    ("built", "moved"),
    [
        ("(Net().to(device))", ".to(device)"),
        ("(\n    Net().to(device)\n)", ".to(device)"),
        ("((Net()).float().to(device) )", ".float().to(device)"),
        ("(Net())", ""),
    ],
)
def test_a_model_that_is_built_in_parentheses_is_perforated(tmp_path: Path, built: str, moved: str) -> None:
    text = script("acc = validate()\nbest = max(best, acc)").replace("model = Net()\n", f"model = {built}\n")
    changed = rewritten(plan_of(tmp_path, text))
    assert f"\nmodel = model{moved}\n" in changed or not moved
    assert ".float(" not in changed.split("perforate_model")[0]


def test_optimizer_in_an_item_is_handed_over_as_that(tmp_path: Path) -> None:
    text = (
        script("acc = validate()\nbest = max(best, acc)")
        .replace("optimizer = ", "opts = {'model': ")
        .replace("0.1)", "0.1)}")
    )
    changed = rewritten(plan_of(tmp_path, text.replace("optimizer.", "opts['model'].")))
    assert "0.1)}\nGPA.pai_tracker.set_optimizer_instance(opts['model'])\n" in changed


def test_optimizer_is_handed_over_in_each_function_that_builds_it(tmp_path: Path) -> None:
    functions = """
    def resumed():
        model = Net()
        return model, torch.load("last.pt")

    def optimizer_of(model, state):
        global optimizer
        optimizer = torch.optim.Adam(model.parameters())
        optimizer.load_state_dict(state)

    if a:
        optimizer_of(model, torch.load("last.pt"))
    """
    changed = rewritten(plan_of(tmp_path, script("acc = validate()\nbest = max(best, acc)", code(functions))))
    assert changed.count(".set_optimizer_instance(optimizer)\n") == 2


def test_average_of_the_weights_is_refused_where_the_model_is_restructured_in_its_process(tmp_path: Path) -> None:
    ema = (MODEL, f"{MODEL}    ema = ModelEma(model)\n")
    step = ("        acc = validate(model)\n", "        ema.update(model)\n        acc = validate(model)\n")
    dp = [("DistributedDataParallel", "DataParallel"), (", device_ids=[0]", "")]
    text = BASE
    for old, new in (ema, step):
        assert old in text
        text = text.replace(old, new)
    assert "PAI114" not in [problem.code for problem in plan_of(tmp_path, text).questions]
    for old, new in dp:
        text = text.replace(old, new)
    assert not plan_of(tmp_path, text).questions
    assert [problem.code for problem in plan_of(tmp_path, text, IN_PROCESS).questions] == ["PAI114"]
    text = text.replace("    ema = ModelEma", "    if use_ema:\n        ema = ModelEma")
    plan = plan_of(tmp_path, text, IN_PROCESS)
    assert not plan.questions
    assert "PAI114" in [note.code for note in plan.notes]


@pytest.mark.parametrize(
    ("after", "left"), [("", "REPORT, model)"), ("test(model)", "if REPORT, model, leave=False):\n    break")]
)
def test_ranks_that_end_their_turn_early_hand_the_score_over_there(tmp_path: Path, after: str, left: str) -> None:
    epoch = (
        "acc = evaluate(model)\nif rank != 0:\n    continue\nif acc > best:\n    best = acc\n    torch.save(model, 'b')"
    )
    text = script(epoch, f"{MEASURED}\nrank, best = dist.get_rank(), 0", after)
    plan = plan_of(tmp_path, text)
    assert plan.questions == []
    changed = rewritten(plan)
    call = left.replace("REPORT", "pai_distributed.report_validation_score(acc")
    early = call.replace("acc, model", "acc, model, early=True")
    assert changed.count("report_validation_score") == 2
    assert f"    if rank != 0:\n{indent(early, ' ' * 8)}\n        continue\n" in changed
    assert f"        torch.save(model, 'b')\n{indent(call, ' ' * 4)}\n" in changed


@pytest.mark.parametrize(
    ("test", "handed"),
    [
        ("limit", True),
        ("limit and steps >= limit", True),
        ("epoch == 3", True),
        ("last", True),
        ("last or enough", True),
        ("last or later", True),
        ("args.most > 0 and steps > args.most", True),  # of which `args.weights.split` changes nothing
        ("args.weights.most and limit", True),
        ("limit and bad > 5", True),  # of another measure, perhaps, by which no epoch before it was worse
        ("stopper.early_stop", True),
        ("rank == 0 and limit", False),  # the others go on, until they are told
    ],
)
def test_turn_that_ends_the_training_hands_its_score_over_first(tmp_path: Path, test: str, handed: bool) -> None:
    epoch = f"""
    steps += 1
    last = steps == limit or epoch == 9
    final = epoch == 9 or later
    later = final or epoch == 8
    acc = evaluate(model)
    enough = acc > 0.9
    bad = 0 if acc > best else bad + 1
    stopper(acc)
    weights = args.weights.split()
    if {test}:
        break
    """
    before = f"{MEASURED}\nrank, best, steps, bad, limit = dist.get_rank(), 0, 0, 0, args.limit\nstopper = Stopper()"
    early = "        pai_distributed.report_validation_score(acc, model, early=True)\n        break\n"
    changed = rewritten(plan_of(tmp_path, script(f"{code(epoch)}\nprint(acc)", before)))
    assert changed.count("report_validation_score") == 1 + handed
    assert (early in changed) == handed
    last = rewritten(plan_of(tmp_path, script(code(epoch), before)))
    assert last.count("report_validation_score") == 1
    assert (f"model)\n    if {test}:\n        break\n" in last) == handed
    told = script(code(epoch).replace("    break", "    print(steps)\n    break"), before)
    assert (early in rewritten(plan_of(tmp_path, told))) == handed
    closed = script(code(epoch).replace("break", "bar.close()\n    break"), before)
    assert (f"model)\n    if {test}:\n        bar.close()\n" in rewritten(plan_of(tmp_path, closed))) == handed


#: Where the training ends within the block that measures, and whether the score is handed over there.
ENDED_WITHIN = {
    "at once": ("if acc > 0.9:\n    END", True),
    "deeper": ("if epoch > 3:\n    if acc > 0.9:\n        END", True),
    "as it is better": ("if acc > best:\n    best = acc\n    save(model)\n    if acc > 0.9:\n        END", True),
    "on a rank": ("if rank == 0 and acc > 0.9:\n    END", False),
    "in a loop": ("for name in names:\n    tell(name)\n    if acc > 0.9:\n        exit()", False),
}


@pytest.mark.parametrize(
    "guard",
    [
        "if epoch % 2 == 0:",
        "if late:\n    tell(late)\nelif valid:",
        "with group:",
        "try:\n    tell()\nfinally:",
        "if epoch % 2 == 0:\n    with group:",
        "if epoch % 2 == 0:\n    with group:\n        with torch.no_grad():",
    ],
)
@pytest.mark.parametrize("end", ["break", "exit()"])
@pytest.mark.parametrize(("within", "handed"), ENDED_WITHIN.values(), ids=ENDED_WITHIN)
def test_score_is_handed_over_before_what_ends_the_training_in_its_block(
    tmp_path: Path, guard: str, end: str, within: str, handed: bool
) -> None:
    block = f"acc = evaluate(model)\nbest = max(best, acc)\n{within.replace('END', end)}\ntell(acc)"
    deep = guard.splitlines()[-1]
    epoch = f"{guard}\n{indent(block, ' ' * (4 + len(deep) - len(deep.lstrip())))}\nprint(epoch)"
    before = f"{MEASURED}\nrank, best, late, valid = dist.get_rank(), 0, args.late, args.valid"
    changed = rewritten(plan_of(tmp_path, script(epoch, before, "print(best)")))
    early = re.search(
        r"\n( +)pai_distributed.report_validation_score\((.*), model, early=True, leave=False\)\n", changed
    )
    assert (early is not None) == handed
    if early is not None:
        until = "break" if end == "break" else "pai_distributed.end_of_training()"
        assert changed[early.end() :].lstrip().startswith(until)
        taken = "pai_score = acc\n" if early[2] == "pai_score" else "acc = evaluate(model)\n"
        assert taken in changed[: early.start()]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("if epoch > 9:\n    break\nacc = evaluate(model)\nbest = max(best, acc)", id="before"),
        pytest.param("acc = evaluate(model)\nbest = max(best, acc)\ntell()\nelse:\n    break", id="beside"),
    ],
)
def test_what_ends_the_training_without_a_score_hands_none_over(tmp_path: Path, block: str) -> None:
    epoch = f"if epoch % 2 == 0:\n{indent(block, '    ').replace('    else', 'else')}\nprint(epoch)"
    assert "early=True" not in rewritten(plan_of(tmp_path, script(epoch, f"{MEASURED}\nbest = 0", "print(best)")))


def test_score_is_taken_before_what_ends_the_training_in_one_branch_of_a_choice(tmp_path: Path) -> None:
    measured = "    acc = evaluate(model)\n    best = max(best, acc)\n"
    end = "    if acc > 0.9:\n        break\n    tell(acc)\n"
    epoch = f"if epoch % 2 == 0:\n{measured}{end}elif late:\n{measured}    tell(late)\nprint(epoch)"
    changed = rewritten(plan_of(tmp_path, script(epoch, f"{MEASURED}\nbest, late = 0, args.late", "print(best)")))
    call = "pai_distributed.report_validation_score(pai_score, model, early=True, leave=False)"
    taken = f"pai_score = acc\n        if acc > 0.9:\n            {call}\n            break\n        tell(acc)\n"
    assert taken in changed
    assert changed.count("pai_score = acc\n") == 2


@pytest.mark.parametrize("later", ["tell(acc)", "torch.save(model.state_dict(), 'last.pt')"])
@pytest.mark.parametrize("end", ["if acc > 0.9:\n    break", "if epoch > 500:\n    if acc > 0.9:\n        break"])
def test_a_step_that_ends_the_training_hands_its_score_over_first(tmp_path: Path, end: str, later: str) -> None:
    block = indent(f"acc = evaluate(model)\nbest = max(best, acc)\n{end}\n{later}", "    ")
    loop = script(f"if epoch % 100 == 0:\n{block}\nprint(epoch)", f"{MEASURED}\nbest = 0", "print(best)")
    step = loop[loop.index("    for x, y in loader:") : loop.index("    if epoch")]
    head = step.replace("    for x, y in loader:\n", "    x, y = next(batches)\n").replace("        ", "    ")
    steps = loop.replace(step, head).replace("range(10)", "itertools.count()")
    changed = rewritten(plan_of(tmp_path, f"import itertools\n{steps}"))
    handed = changed.index("report_validation_score(acc, model")
    assert changed.index("evaluate(model)") < handed < changed.index("break\n")


_ON_FIRST = "acc = None\nif rank == 0:\n    acc = evaluate(model)\nsent = [acc]\n"
_SENT = "torch.distributed.broadcast_object_list(sent, 0)\n"


@pytest.mark.parametrize(
    ("epoch", "handed"),
    [
        pytest.param(f"{_ON_FIRST}{_SENT}acc = sent[0]\nif acc > 0.9:\n    break", True, id="sent to all"),
        pytest.param(f"{_ON_FIRST}if acc:\n    break", False, id="on one rank"),
        pytest.param(f"{_ON_FIRST}acc = sent[0]\nif acc:\n    break", False, id="sent to none"),
        pytest.param(
            f"{_ON_FIRST}{_SENT}if late:\n    acc = sent[0]\nif acc:\n    break", False, id="not taken by all"
        ),
        pytest.param(
            "acc = evaluate(model)\nbest = max(acc, best)\nif late:\n    acc = evaluate(test)\n    break",
            True,
            id="a test",
        ),
    ],
)
def test_turn_that_ends_the_training_hands_over_what_is_made_again_by_then(
    tmp_path: Path, epoch: str, handed: bool
) -> None:
    before = f"{MEASURED}\nrank, best, late = dist.get_rank(), 0, args.late"
    changed = rewritten(plan_of(tmp_path, script(f"{epoch}\nprint(epoch)", before), BY_ACC))
    early = "        pai_distributed.report_validation_score(pai_score, model, early=True)\n        break\n"
    assert (early in changed, changed.count("report_validation_score")) == (handed, 1 + handed)


def test_turn_that_ends_the_training_hands_over_what_begins_anew_behind_it(tmp_path: Path) -> None:
    epoch = (
        "meter = evaluate(model, meter)\nif meter.avg > best:\n    best = meter.avg\nif late:\n    break\nmeter.reset()"
    )
    plan = plan_of(tmp_path, script(epoch, f"{MEASURED}\nbest, late, meter = 0, args.late, Meter()"))
    assert plan.questions == []
    taken, early = (
        "    pai_score = meter.avg\n    if meter.avg > best:",
        "report_validation_score(pai_score, model, early=True)",
    )
    assert all(rewritten(plan).count(one) == 1 for one in (taken, early))


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("if epoch < 3:\n    print(epoch)\nelif rank == 0:\n    break", id="on a rank"),
        pytest.param("try:\n    write(epoch)\nexcept OSError:\n    break", id="by an error"),
    ],
)
def test_end_that_some_ranks_alone_come_to_hands_nothing_over_first(tmp_path: Path, end: str) -> None:
    epoch = f"acc = evaluate(model)\nbad = 0 if acc > best else bad + 1\n{end}\nprint(acc)"
    before = f"{MEASURED}\nrank, best, bad = dist.get_rank(), 0, 0"
    assert "early=True" not in rewritten(plan_of(tmp_path, script(epoch, before)))


#: What a loop that raises stands in, what catches it there, and of which class it is.
CAUGHT = {
    "around the loop": ("LOOP", "except Done:", "Exception", True),
    "by one of several": ("LOOP", "except (KeyboardInterrupt, Done) as end:", "Exception", True),
    "around its function's call": ("train(model)", "except Done:", "Exception", True),
    "called an error": ("LOOP", "except PlateauError:", "Exception", True),
    "as any error": ("LOOP", "except Exception:", "Exception", False),
    "as another one": ("LOOP", "except ValueError:", "Exception", False),
    "as an error": ("LOOP", "except DivergedError:", "ArithmeticError", False),
    "as an error of another name": ("LOOP", "except Done:", "RuntimeError", False),
    "as an error by another class": ("LOOP", "except Done:", "Broken", False),
}


def _caught(tmp_path: Path, tried: str, caught: str, base: str, asked: str = "other(acc)", said: str = "") -> str:
    epoch = f"acc = evaluate(model)\nif acc > best:\n    best = acc\nelif {asked}:\n    raise Done(epoch)\nprint(acc)"
    loop = script(epoch, f"{MEASURED}\nimport math\nbest = 0")
    head = loop.index("for epoch in")
    inner = f"def train(model):\n    best = 0\n{indent(loop[head:], '    ')}\n" if tried != "LOOP" else ""
    block = indent(tried.replace("LOOP", loop[head:]), "    ")
    classes = f"class Broken(OSError):\n    pass\n\nclass Done({base}):\n    pass\n\n"
    text = f"{loop[:head]}\n{classes}{inner}\ntry:\n{block}\n{caught}\n    {said or 'print(best)'}\n"
    named = re.search(r"\w+Error", caught.replace("ValueError", ""))
    return rewritten(plan_of(tmp_path, text.replace("Done", named[0]) if named else text))


def _is_end(changed: str) -> bool:
    """Whether what raises hands the score over first, and ends the training."""
    early = "pai_distributed.report_validation_score(acc, model, early=True, leave=False)"
    ended = rf"{re.escape(early)}\n +pai_distributed.end_of_training\(\)\n(.*kept_with_best\(\)\n)? +raise \w+\(epoch\)"
    return re.search(ended, changed) is not None


@pytest.mark.parametrize(("tried", "caught", "base", "ends"), CAUGHT.values(), ids=CAUGHT)
def test_exception_that_is_caught_behind_the_training_ends_it(
    tmp_path: Path, tried: str, caught: str, base: str, ends: bool
) -> None:
    """It leaves before the turn hands its score over, and past all that stands behind the loop.

    One that is an error by its class ends no training that is to get dendrites.
    """
    assert _is_end(_caught(tmp_path, tried, caught, base)) is ends


@pytest.mark.parametrize(
    ("asked", "ends"),
    [
        pytest.param("math.isnan(acc)", False, id="no number"),
        pytest.param("not math.isfinite(acc)", False, id="not finite"),
        pytest.param("not torch.isfinite(acc).all()", False, id="a tensor's"),
        pytest.param("acc.isnan().any() or acc < 0", False, id="by a method, or else"),
        pytest.param("acc != acc", False, id="unlike itself"),
        pytest.param("(bad := math.isinf(acc))", False, id="as it is named"),
        pytest.param("math.isfinite(acc) and other(acc)", True, id="a finite one"),
        pytest.param("not math.isnan(acc)", True, id="any number"),
        pytest.param("acc != best", True, id="unlike another"),
    ],
)
def test_exception_for_what_is_no_finite_number_ends_no_training(tmp_path: Path, asked: str, ends: bool) -> None:
    assert _is_end(_caught(tmp_path, "LOOP", "except Done:", "Exception", asked)) is ends


@pytest.mark.parametrize(("said", "ends"), [("log.exception('diverged')", False), ("log.info('done')", True)])
def test_exception_that_is_told_as_an_error_ends_no_training(tmp_path: Path, said: str, ends: bool) -> None:
    assert _is_end(_caught(tmp_path, "LOOP", "except Done:", "Exception", said=said)) is ends


@pytest.mark.parametrize("last", ["raise", "sys.exit(1)"])
def test_exception_that_fails_the_run_ends_no_training(tmp_path: Path, last: str) -> None:
    loop = script("acc = evaluate(model)\nif acc != acc:\n    raise Broken\nprint(acc)", MEASURED)
    head = loop.index("for epoch in")
    tried = f"try:\n{indent(loop[head:], '    ')}\nexcept Broken:\n    print(model)\n    {last}\n"
    text = f"import sys\n{loop[:head]}\nclass Broken(Exception):\n    pass\n\n{tried}"
    assert "early=True" not in rewritten(plan_of(tmp_path, text))


@pytest.mark.parametrize("after", ["", "return best"])
@pytest.mark.parametrize("line", ["", "print(acc)"])
def test_return_that_ends_the_training_is_its_end_for_the_caller_too(tmp_path: Path, line: str, after: str) -> None:
    epoch = "acc = evaluate(model)\nif acc > best:\n    best = acc\nif other(acc):\n    return best\n"
    loop = script(f"{epoch}{line}", f"{MEASURED}\nbest = 0")
    head = loop.index("optimizer =")
    trained = indent(f"{loop[head:]}{after}", "    ")
    text = f"{loop[:head]}\ndef train(model):\n{trained}\n\nbest = train(model)\nprint(best)\n"
    changed = rewritten(plan_of(tmp_path, text))
    lines = "pai_distributed.end_of_training()", "best = pai_distributed.kept_with_best()", "return best\n"
    ended = f"\n{' ' * 12}".join(lines)
    assert changed.count(ended) == 1
    handed = changed.index("report_validation_score(acc")
    assert handed < changed.index(ended)
    assert changed.count("report_validation_score(acc") == (2 if line else 1)


@pytest.mark.parametrize(
    ("block", "before", "after"),
    [
        pytest.param(
            "dist.destroy_process_group()", "dist.destroy_process_group()", "return best", id="without a group"
        ),
        pytest.param(
            "print(best)\nload(model)\nprint(evaluate(model))", "print(best)", "return best", id="other weights"
        ),
        pytest.param("save(model)\nprint(best)", "print(best)", "return best", id="it saves"),
        pytest.param("best = max(best, acc)\nprint(best)", "print(best)", "return best", id="a best of its own"),
        pytest.param("if other(best):\n    break\nprint(best)", "print(best)", "return best", id="another end"),
        pytest.param("print(best)\nsave(model)", "return best", "return best", id="it saves last"),
        pytest.param("load(model)\nprint(evaluate(model))", "load(model)", "", id="nothing follows the loop"),
    ],
)
@pytest.mark.parametrize("left", ["return best", "exit()"])
def test_block_that_ends_the_training_begins_with_the_hand_over(
    tmp_path: Path, block: str, before: str, after: str, left: str
) -> None:
    """What it has not done by then it does with the best, and in a process group."""
    before = before.replace("return best", left)
    ending = indent(f"{block}\n{left}", "    ")
    loop = script(
        f"acc = evaluate(model)\nif acc > best:\n    best = acc\nif stop():\n{ending}\nprint(acc)",
        f"{MEASURED}\nbest = 0",
    )
    head = loop.index("optimizer =")
    text = f"{loop[:head]}\ndef train(model):\n{indent(f'{loop[head:]}{after}', '    ')}\n\ntrain(model)\n"
    changed = rewritten(plan_of(tmp_path, text))
    call = "pai_distributed.report_validation_score(acc, model, early=True, leave=False)"
    kept = ["best = pai_distributed.kept_with_best()"] if after else []
    lines = call, "pai_distributed.end_of_training()", *kept, before
    assert f"\n{' ' * 12}".join(lines) in changed
