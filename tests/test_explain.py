"""The diff for people: every hunk names the rules whose edits made it, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retrofit.explain import colored, edits_text, explained
from retrofit.layout import View
from retrofit.options import load_options
from retrofit.plan import Plan, make_plan
from retrofit.report import diff
from retrofit.rewrite import rewrite
from retrofit.write.new import NewFile
from tests.conftest import SCRIPT, Folder
from tests.helpers import recipe
from tests.projects import Project, load_projects

PROJECTS = [project for project in load_projects() if not project.options]


def plan_of(project: Project, folder: Path) -> Plan:
    script = project.copy("before", folder)
    return make_plan(script, script.name, recipe(), load_options(script, {}))


def hunks(data: bytes) -> list[bytes]:
    """Return the lines of each hunk, without its head."""
    return [hunk.partition(b"\n")[2] for hunk in re.split(rb"^@@ -", data, flags=re.MULTILINE)[1:]]


def said(text: str) -> list[set[str]]:
    """Return the codes that stand before each hunk of an explained diff."""
    found: list[set[str]] = []
    waiting: set[str] = set()
    for line in text.splitlines():
        if line.startswith("@@ -"):
            found.append(waiting)
            waiting = set()
        elif match := re.match(r"PAI\d{3} ", line):
            waiting.add(match[0].strip())
    return found


def changed(hunk: bytes) -> bytes:
    """Return a hunk's own lines: without a change between them two hunks may be one, with the same context."""
    return b"".join(line for line in hunk.splitlines(keepends=True) if line[:1] in (b"+", b"-"))


@pytest.mark.parametrize("project", PROJECTS[::6], ids=lambda project: project.name)
def test_a_hunk_names_the_rules_without_which_it_would_be_another(project: Project, tmp_path: Path) -> None:
    plan = plan_of(project, tmp_path)
    index = plan.script.index
    own = {file.source.path: file for file in index.files}
    for new in (new for new in plan.files if new.path in own):
        file = own[new.path]
        edits = [edit for edit in plan.edits if index.file(edit.node) is file]
        whole = hunks(diff(new, "x"))
        alone = Plan(plan.script, plan.edits, [], [], [new])
        codes = said(explained(alone, {new.path: "x"}, recipe().titles))
        for code in {edit.code for edit in edits}:
            text = rewrite(index, [edit for edit in edits if edit.code != code], file)
            others = b"".join(map(changed, hunks(diff(NewFile(new.path, new.before, file.source.encode(text)), "x"))))
            assert [code in names for names in codes] == [changed(hunk) not in others for hunk in whole], code


def test_the_diff_itself_is_that_of_the_users_own_files(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    plain = folder.run("apply", "--dry-run", "train.py").out
    text = folder.run("apply", "--dry-run", "-v", "train.py").out
    heads = re.compile(r"^PAI\d{3} [A-Z].*\n", re.MULTILINE)
    own, generated = plain.split("diff --git a/pai_distributed/", 1)
    assert heads.sub("", text).startswith(own)
    assert generated
    assert text.endswith("would write train.py\nwould write pai_distributed/\nwould write train_distributed.sh\n")
    assert f"PAI009 {recipe().titles['PAI009']}\n" in text


@pytest.mark.parametrize("arguments", [["apply", "-v"], ["apply", "-v", "--check"], ["-v", "apply", "--dry-run"]])
def test_apply_gives_its_reasons_when_it_is_asked_to(folder: Folder, arguments: list[str]) -> None:
    folder.write("train.py", SCRIPT)
    answer = folder.run(*arguments, "train.py")
    assert f"\nPAI009 {recipe().titles['PAI009']}\n" in answer.out
    assert re.search(
        r"^Took \d.* s: reading the project .* s, surveying .* s, proving .* s\.$", answer.err, re.MULTILINE
    )
    assert "PAI009" not in Folder(folder.path).run("apply", "--dry-run", "train.py").out


def test_inspect_lists_each_change_with_its_rule_and_place(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    out = folder.run("inspect", "-v", "train.py").out
    wrapped = 1 + SCRIPT[: SCRIPT.index("    model = DistributedDataParallel")].count("\n")
    changes = out.partition("\nChanges:\n")[2].splitlines()
    assert any(re.fullmatch(rf"train\.py:{wrapped} +PAI009  Wrap the model .*", line) for line in changes)
    lines = [int(line.split()[0].partition(":")[2]) for line in changes]
    assert lines == sorted(lines)


def test_a_file_in_another_encoding_is_shown_as_text(folder: Folder) -> None:
    text = "# -*- coding: latin-1 -*-\n" + SCRIPT.replace("from torch import nn", "from torch import nn  # entraîner")
    script = folder.write("train.py", text.encode("latin-1"))
    plan = make_plan(script, "train.py", recipe(), load_options(script, {}))
    assert "from torch import nn  # entraîner" in explained(
        plan, {new.path: new.path.name for new in plan.files}, recipe().titles
    )
    assert edits_text(plan, recipe().titles)


def test_a_coloured_diff_is_the_diff_with_colours() -> None:
    new = NewFile(Path("x.py"), b"a = 1\r\n-- b\n-- c\n", b"a = 2\r\n-- b\n@@ d\n")
    data = diff(new, "x.py")
    shown = colored(data, View(color=True))
    assert re.sub(rb"\x1b\[\d*m", b"", shown) == data
    assert b"\x1b[31m-a = 1\x1b[0m\r\n" in shown
    assert b"\x1b[31m--- c\x1b[0m\n\x1b[32m+@@ d\x1b[0m\n" in shown
    assert b"\x1b[1m--- a/x.py\x1b[0m\n" in shown
    assert b"\n -- b\n" in shown
    assert colored(data, View()) == data
