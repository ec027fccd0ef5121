"""The formats of `retrofit check`: what they say, to whom it is valid, and that odd texts break none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from retrofit.check.checker import Checker
from retrofit.check.finding import Checked, Finding, Replacement, Report, Wanted
from retrofit.check.formats import render
from retrofit.check.settings import Settings
from retrofit.cli import main
from retrofit.errors import Problem
from retrofit.layout import width
from retrofit.rules import Example, Rule, load_recipe
from retrofit.rules_folder import known_rules, rules_folder

FORMATS = ("full", "concise", "json", "sarif", "github", "junit", "statistics")
SCHEMAS = Path(__file__).parent / "schemas"

SHUFFLED = Finding(
    file="src/train.py",
    line=9,
    column=10,
    end_line=9,
    end_column=46,
    code="DDP202",
    name="shuffle-with-sampler",
    level="error",
    message="`shuffle=True` beside a sampler.",
    excerpt=("loader = DataLoader(data, True, sampler=mine)",),
    fix="safe",
    replacements=(Replacement(9, 9, "loader = DataLoader(data, False, sampler=mine)\n"),),
)
LOOP = Finding(
    file="src/train.py",
    line=98,
    column=2,
    end_line=104,
    end_column=12,
    code="DDP203",
    name="set-epoch-missing",
    level="advice",
    message="Never told the epoch.",
    excerpt=("\tfor epoch in range(9):", "\t\tfor x, y in it:", "", "\t\t\tstep()  ", "\t\t# end"),
)
UNREADABLE = Problem("src/old.py", 3, 7, "RF004", "is not Python 3.")
MISSING = Problem("gone.py", 0, 0, "RF001", "no such file or folder.")
REPORT = Report((SHUFFLED, LOOP), (UNREADABLE, MISSING), files=12, repaired=("DDP001", "DDP202", "DDP001"))
EMPTY = Report((), files=12)


def assert_sarif(text: str) -> dict[str, Any]:
    """Return the run of a SARIF log, which must fit the published schema."""
    log: dict[str, Any] = json.loads(text)
    errors = [f"{error.json_path}: {error.message}" for error in sarif_validator().iter_errors(log)]
    assert errors == []
    [run] = log["runs"]
    assert isinstance(run, dict)
    return run


@cache
def sarif_validator() -> Any:
    from jsonschema import Draft4Validator

    return Draft4Validator(json.loads((SCHEMAS / "sarif-2.1.0.json").read_text()))


def assert_junit(text: str) -> Element:
    """Return the root of a JUnit report, which must fit the published schema."""
    assert text.isascii()
    root = fromstring(text)
    junit_schema().validate(text)
    for suite in (root, *root.iter("testsuite")):
        for name, kind in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
            assert suite.get(name) == str(len(list(suite.iter(kind))))
    return root


@cache
def junit_schema() -> Any:
    from xmlschema import XMLSchema

    return XMLSchema(str(SCHEMAS / "jenkins-junit.xsd"))


def unescaped(text: str, property: bool = False) -> str:
    """Return a part of a workflow command as GitHub's runner reads it."""
    escapes = {"%0D": "\r", "%0A": "\n", **({"%3A": ":", "%2C": ","} if property else {}), "%25": "%"}
    for escape, character in escapes.items():
        text = text.replace(escape, character)
    return text


def github_command(line: str) -> tuple[str, dict[str, str], str]:
    """Return the name, the properties and the message of a workflow command as GitHub's runner reads it."""
    assert line.startswith("::")
    head, _, message = line[2:].partition("::")
    name, _, settings = head.partition(" ")
    pairs = [pair.partition("=") for pair in settings.split(",")]
    return name, {key: unescaped(value, property=True) for key, _, value in pairs}, unescaped(message)


# ---- full


def test_full_shows_the_source_the_rule_and_the_fix() -> None:
    assert render("full", REPORT) == (
        "src/train.py:9:10: DDP202 error `shuffle=True` beside a sampler.\n"
        "  |\n"
        "9 | loader = DataLoader(data, True, sampler=mine)\n"
        "  |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  = rule: shuffle-with-sampler; `retrofit rule DDP202` explains it\n"
        "  = fix: safe, `--fix` applies it\n"
        "\n"
        "src/train.py:98:2: DDP203 advice Never told the epoch.\n"
        "    |\n"
        " 98 |     for epoch in range(9):\n"
        "    |     ^^^^^^^^^^^^^^^^^^^^^^\n"
        " 99 |         for x, y in it:\n"
        "    |         ^^^^^^^^^^^^^^^\n"
        "100 |\n"
        "101 |             step()\n"
        "    |             ^^^^^^\n"
        "102 |         # end\n"
        "    |         ^^^^^\n"
        "    | ...\n"
        "    = rule: set-epoch-missing; `retrofit rule DDP203` explains it\n"
        "\n"
        "Repaired 3 findings: 2 DDP001 and 1 DDP202. Found 1 error and 1 piece of advice in 12 files. "
        "`--fix` repairs 1. 2 problems: not everything was checked."
    )


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (EMPTY, "Nothing found in 12 files."),
        (Report((), files=1), "Nothing found in 1 file."),
        (Report(()), "There was no Python file to check."),
        (Report((), (MISSING,), 2), "Nothing found in 2 files. 1 problem: not everything was checked."),
        (Report((), files=2, repaired=("DDP001",)), "Repaired 1 finding: 1 DDP001. Nothing found in 2 files."),
    ],
)
def test_full_says_aloud_that_nothing_was_found(report: Report, said: str) -> None:
    assert render("full", report) == said


@pytest.mark.parametrize("odd", ["", "\t", "日本語", "é", "e\u0301", "\u200b", "a\tb\t", "\x1b[31m", "😀"])
@pytest.mark.parametrize("marked", ["DDP(model)", "数", "a\tb"])
def test_carets_stand_below_what_is_meant(odd: str, marked: str) -> None:
    line = f"x = '{odd}'; {marked}; y = 1"
    first = line.index(marked) + 1
    finding = Finding("a.py", 1, first, 1, first + len(marked), "X1", "x", "error", "m", (line,))
    shown, carets = [text[4:] for text in render("full", Report((finding,))).splitlines()[2:4]]
    assert "\x1b" not in shown
    columns = "".join(character + "\0" * (width(character) - 1) for character in shown if width(character))
    under = "".join(character for character, caret in zip(columns, carets, strict=False) if caret == "^")
    assert re.sub(r"\s+", " ", under.replace("\0", "")) == re.sub(r"\s+", " ", marked)


def test_a_span_that_ends_with_a_line_marks_nothing_of_the_next() -> None:
    finding = Finding("a.py", 1, 1, 2, 1, "X1", "x", "error", "m", ("step()", "rest()"))
    assert render("full", Report((finding,))).splitlines()[1:5] == [
        "  |", "1 | step()", "  | ^^^^^^", "  = rule: x; `retrofit rule X1` explains it",
    ]  # fmt: skip


def test_an_empty_span_has_one_caret() -> None:
    finding = Finding("a.py", 1, 7, 1, 7, "X1", "x", "error", "m", ("step()",))
    assert render("full", Report((finding,))).splitlines()[3] == "  |       ^"


@pytest.mark.parametrize("column", [1, 50_000])
def test_a_long_line_is_cut_around_what_is_meant(column: int) -> None:
    line = "a" * (column - 1) + "here" + "b" * 50_000
    finding = Finding("a.py", 1, column, 1, column + 4, "X1", "x", "error", "m", (line,))
    shown, carets = render("full", Report((finding,))).splitlines()[2:4]
    assert len(shown) < 180
    assert shown[carets.index("^") : carets.rindex("^") + 1] == "here"
    assert shown.endswith("…")


# ---- concise and statistics


def test_concise_is_one_line_a_finding_and_nothing_else() -> None:
    assert render("concise", REPORT).splitlines() == [
        "src/train.py:9:10: DDP202 error `shuffle=True` beside a sampler.",
        "src/train.py:98:2: DDP203 advice Never told the epoch.",
    ]
    assert render("concise", EMPTY) == ""


def test_statistics_count_each_rule_the_most_frequent_first() -> None:
    report = Report((SHUFFLED, LOOP, LOOP), files=3)
    assert render("statistics", report).splitlines() == [
        "2  DDP203  advice   set-epoch-missing",
        "1  DDP202  error    shuffle-with-sampler  1 fixable",
        "",
        "Found 1 error and 2 pieces of advice in 3 files. `--fix` repairs 1.",
    ]
    assert render("statistics", EMPTY) == "Nothing found in 12 files."


# ---- json


def test_json_has_everything() -> None:
    data = json.loads(render("json", REPORT))
    assert data["version"] == 1
    assert data["files"] == 12
    assert data["counts"] == {"error": 1, "warning": 0, "advice": 1, "open": 0}
    assert data["repaired"] == {"DDP001": 2, "DDP202": 1}
    assert [Problem(**problem) for problem in data["problems"]] == [UNREADABLE, MISSING]
    for one in data["findings"]:
        fix = one.pop("fix") or {"kind": "", "replacements": []}
        one.update(fix=fix["kind"], replacements=tuple(Replacement(**change) for change in fix["replacements"]))
    assert [Finding(**{**one, "excerpt": tuple(one["excerpt"])}) for one in data["findings"]] == [SHUFFLED, LOOP]


# ---- sarif


def test_sarif_fits_the_published_schema_and_has_everything() -> None:
    run = assert_sarif(render("sarif", REPORT))
    rules = run["tool"]["driver"]["rules"]
    assert {rule["id"] for rule in rules} <= set(known_rules())
    for rule in rules:
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
        assert rule["help"]["text"].startswith(f"{rule['id']} {rule['name']}: ")
        assert rule["help"]["markdown"].count("```") % 2 == 0
    shuffled, loop = run["results"]
    assert [rules[result["ruleIndex"]]["id"] for result in (shuffled, loop)] == ["DDP202", "DDP203"]
    assert (shuffled["level"], loop["level"]) == ("error", "note")
    place = shuffled["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "src/train.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 9, "startColumn": 10, "endLine": 9, "endColumn": 46}
    assert run["columnKind"] == "unicodeCodePoints"
    [invocation] = run["invocations"]
    assert not invocation["executionSuccessful"]
    said = [notification["message"]["text"] for notification in invocation["toolExecutionNotifications"]]
    assert said == [str(UNREADABLE), str(MISSING)]
    assert "fixes" in shuffled
    assert "fixes" not in loop


def test_sarif_of_nothing_fits_the_published_schema() -> None:
    run = assert_sarif(render("sarif", EMPTY))
    assert run["results"] == []
    assert run["invocations"][0]["executionSuccessful"]


def test_sarif_fingerprints_survive_lines_above_and_tell_twins_apart() -> None:
    def prints(*findings: Finding) -> list[str]:
        results = json.loads(render("sarif", Report(findings)))["runs"][0]["results"]
        return [result["partialFingerprints"]["retrofit/v1"] for result in results]

    moved = Finding(**{**vars(SHUFFLED), "line": 20, "end_line": 20})
    one, twin = prints(SHUFFLED, moved)
    assert one != twin
    assert prints(moved) == [one]


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("./a b/100%.py", "a%20b/100%25.py"),
        ("c:d/é#?.py", "c%3Ad/%C3%A9%23%3F.py"),
        ("x\udcff.py", "x%FF.py"),
        ("/tmp/a b.py", "file:///tmp/a%20b.py"),
    ],
)
def test_sarif_paths_are_uris(file: str, uri: str) -> None:
    finding = Finding(**{**vars(SHUFFLED), "file": file})
    run = assert_sarif(render("sarif", Report((finding,))))
    location = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location["uri"] == uri
    assert ("uriBaseId" in location) == (not file.startswith("/"))


def sarif_fixed(text: str, fix: Mapping[str, Any]) -> str:
    """Return a text after a SARIF fix, as a viewer would apply it."""
    starts = [0, *(match.end() for match in re.finditer(r"\r\n?|\n", text))]
    ends = [*(match.start() for match in re.finditer(r"\r\n?|\n", text)), len(text)]
    [change] = fix["artifactChanges"]
    for replacement in reversed(change["replacements"]):
        region = replacement["deletedRegion"]
        first = starts[region["startLine"] - 1] + region.get("startColumn", 1) - 1
        line = region["endLine"] - 1
        last = starts[line] + region["endColumn"] - 1 if "endColumn" in region else ends[line]
        text = text[:first] + replacement["insertedContent"]["text"] + text[last:]
    return text


def json_fixed(text: str, replacements: list[dict[str, Any]]) -> str:
    """Return a text after a fix of the JSON format."""
    lines = re.findall(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+$", text)
    for change in reversed(replacements):
        lines[change["first"] - 1 : change["last"]] = [change["text"]]
    return "".join(lines)


FIXED = [
    (rule, example) for rule in load_recipe(rules_folder() / "ddp").rules for example in rule.examples if example.fixed
]


@pytest.mark.parametrize("end", ["\n", "\r\n", ""], ids=["lf", "crlf", "no-last-line-end"])
@pytest.mark.parametrize(("rule", "example"), FIXED, ids=[f"{rule.code}-{n}" for n, (rule, _) in enumerate(FIXED)])
def test_fixes_in_sarif_and_json_do_what_fix_does(rule: Rule, example: Example, end: str) -> None:
    text = example.bad.lstrip("\n").replace("\n", end or "\n")
    if not end:
        text = text.rstrip("\n")
    settings = Settings() if rule.site == "suppression" else Settings(select=(rule.code,))

    def checked(wanted: Wanted) -> Checked:
        return Checker().check(Path("/project/train.py"), "train.py", text.encode(), settings, wanted)

    findings = checked(Wanted(replacements=True)).findings
    fixed = checked(Wanted(frozenset({"safe", "unsafe"}))).fixed
    if len(findings) > 1 or fixed is None:
        pytest.skip("the fixes of several findings go together")
    report = Report(findings)
    [result] = json.loads(render("sarif", report))["runs"][0]["results"]
    assert sarif_fixed(text, result["fixes"][0]) == fixed.decode()
    [found] = json.loads(render("json", report))["findings"]
    assert json_fixed(text, found["fix"]["replacements"]) == fixed.decode()


# ---- github


def test_github_annotates_lines() -> None:
    lines = [github_command(line) for line in render("github", REPORT).splitlines()]
    names = [name for name, _, _ in lines]
    assert names == ["error", "notice", "error", "error"]
    place = {"file": "src/train.py", "line": "9", "endLine": "9", "col": "10", "endColumn": "46"}
    assert lines[0][1] == {**place, "title": "DDP202 shuffle-with-sampler"}
    assert lines[0][2] == "src/train.py:9:10: DDP202 `shuffle=True` beside a sampler."
    assert "col" not in lines[1][1]  # GitHub refuses columns of several lines
    assert lines[2][1] == {"file": "src/old.py", "line": "3", "col": "7", "title": "RF004"}
    assert lines[3][1] == {"file": "gone.py", "title": "RF001"}
    assert render("github", EMPTY) == ""


def test_github_names_files_as_the_repository_does() -> None:
    finding = Finding(**{**vars(SHUFFLED), "file": "./src/train.py"})
    assert github_command(render("github", Report((finding,))))[1]["file"] == "src/train.py"


# ---- junit


def test_junit_fits_the_published_schema_and_has_everything() -> None:
    root = assert_junit(render("junit", REPORT))
    assert [suite.get("name") for suite in root] == ["src/train.py", "src/old.py", "gone.py"]
    assert [case.get("name") for case in root.iter("testcase")] == ["9:10 DDP202", "98:2 DDP203", "3:7 RF004", "RF001"]
    failure = next(root.iter("failure"))
    assert (failure.get("type"), failure.get("message")) == ("error", SHUFFLED.message)
    assert (failure.text or "").splitlines()[1:] == list(SHUFFLED.excerpt)
    assert [error.text for error in root.iter("error")] == [str(UNREADABLE), str(MISSING)]


def test_junit_of_nothing_is_a_test_that_passes() -> None:
    root = assert_junit(render("junit", EMPTY))
    [case] = root.iter("testcase")
    assert case.get("name") == "Nothing found in 12 files."
    assert len(case) == 0


# ---- whatever the text

ODD = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.sampled_from(
            ["]]>", "<![CDATA[", "&amp;", "<b>", '"', "'", "%", "%0A", "::", ",", "=", "\n", "\r\n", "\t", "\0",
             "\x1b[31m", "\x85", "\u2028", "\u202e", "\ufffe", "😀", "👩‍💻", "日本", "e\u0301", "{0}", "[a](b)", "\\"]
        ),
    ),
    max_size=6,
).map("".join)  # fmt: skip
LINES = ODD.map(lambda text: re.sub(r"[\r\n]", " ", text))


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    excerpt = tuple(draw(st.lists(LINES, min_size=1, max_size=5)))
    line = draw(st.integers(1, 10_000))
    column = draw(st.integers(1, len(excerpt[0]) + 1))
    last = draw(st.integers(0, len(excerpt) - 1))
    end_column = draw(st.integers(1 if last else column, len(excerpt[last]) + 1))
    code = draw(st.sampled_from(["DDP001", "DDP202", "DDP203"]))
    return Finding(
        file=draw(ODD.filter(lambda text: "\0" not in text)) + "a.py",
        line=line,
        column=column,
        end_line=line + last,
        end_column=end_column,
        code=code,
        name=known_rules()[code],
        level=draw(st.sampled_from(["error", "warning", "advice", "open"])),
        message=draw(ODD),
        excerpt=excerpt[: last + 1],
        fix="safe",
        replacements=(Replacement(line, line + last, draw(ODD)),),
    )


PROBLEMS = st.builds(
    Problem,
    file=ODD.filter(lambda text: "\0" not in text).map(lambda text: text + "a.py"),
    line=st.integers(0, 9),
    column=st.just(1),
    code=st.just("RF003"),
    message=ODD,
)
REPORTS = st.builds(
    Report,
    findings=st.lists(findings(), max_size=3).map(tuple),
    problems=st.lists(PROBLEMS, max_size=2).map(tuple),
    files=st.integers(0, 9),
)


#: The first call of a format loads it.
quick = settings(deadline=None, max_examples=50)


@quick
@given(REPORTS)
def test_odd_texts_keep_text_formats_to_their_lines(report: Report) -> None:
    concise = render("concise", report)
    assert concise.split("\n") == concise.splitlines() or not concise
    assert len(concise.splitlines()) == len(report.findings)
    shown = render("full", report)
    assert shown.split("\n") == shown.splitlines()
    assert all(
        line.isprintable() or not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e]", line) for line in shown.split("\n")
    )
    for finding in report.findings:
        caret_lines = [line for line in render("full", Report((finding,))).splitlines() if re.search(r"\| *\^+$", line)]
        *lines, last = finding.excerpt
        meant = "".join([*lines, last[: finding.end_column - 1]])[finding.column - 1 :]
        assert caret_lines or not meant.strip()


@quick
@given(REPORTS)
def test_odd_texts_are_kept_in_json(report: Report) -> None:
    data = json.loads(render("json", report))
    assert [(one["message"], one["file"]) for one in data["findings"]] == [(f.message, f.file) for f in report.findings]


@quick
@given(REPORTS)
def test_odd_texts_are_kept_in_sarif(report: Report) -> None:
    run = assert_sarif(render("sarif", report))
    assert [result["message"]["text"] for result in run["results"]] == [f.message for f in report.findings]
    for result in run["results"]:
        location = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert re.fullmatch(r"(file:/)?([\w.~/-]|%[0-9A-F]{2})*", location["uri"], re.ASCII)


@quick
@given(REPORTS)
def test_odd_texts_are_kept_in_workflow_commands(report: Report) -> None:
    lines = re.split(r"[\r\n]", render("github", report)) if report.findings or report.problems else []
    assert len(lines) == len(report.findings) + len(report.problems)
    for line, finding in zip(lines, report.findings, strict=False):
        _, properties, message = github_command(line)
        assert Path(properties["file"]) == Path(finding.file)
        assert message == f"{finding.place}: {finding.code} {finding.message}"


@quick
@given(REPORTS)
def test_odd_texts_are_kept_in_junit_but_for_control_characters(report: Report) -> None:
    root = assert_junit(render("junit", report))
    cases = [case for case in root.iter("testcase") if len(case)]
    assert len(cases) == len(report.findings) + len(report.problems)
    assert sorted(re.sub(r"\s", "", failure.get("message") or "") for failure in root.iter("failure")) == sorted(
        re.sub(r"\s|[\x00-\x1f\x7f-\x9f\ufffe\uffff]", "", finding.message)
        for finding in report.findings
        if finding.level != "open"
    )
    assert len(list(root.iter("skipped"))) == sum(finding.level == "open" for finding in report.findings)


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "statistics"])
def test_the_command_knows_each_format(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import torch\nx = 1  # retrofit: ignore[DDP203]\n")
    result = CliRunner().invoke(main, ["check", "--format", form, "train.py"])
    assert result.exit_code == 1
    assert "DDP001" in result.stdout
    Path("train.py").write_text("import torch\n")
    assert CliRunner().invoke(main, ["check", "--format", form, "train.py"]).stdout != "\n"
