"""What the unit tests share: a script's text in, its survey, its rewriting or its whole plan out."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from textwrap import dedent, indent

import libcst as cst
import pytest

from retrofit.edits import Edit, Kind
from retrofit.errors import UserError
from retrofit.options import Options
from retrofit.plan import Plan, make_plan
from retrofit.rewrite import rewrite
from retrofit.rules import Recipe, load_recipe
from retrofit.rules_folder import rules_folder
from retrofit.source import Source
from retrofit.survey.index import Index
from retrofit.survey.script import Choices, survey
from retrofit.survey.sites.script import Script

RECIPE_FOLDER = rules_folder() / "perforatedai"
#: What an apply writes beside the script, for it to import.
HELPER = {path.relative_to(RECIPE_FOLDER).as_posix() for path in (RECIPE_FOLDER / "pai_distributed").rglob("*.py")}

#: A whole script; tests replace the words in capitals.
SCRIPT = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = Net()
model = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
BEFORE
for epoch in range(10):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
EPOCH
AFTER
"""


def code(text: str) -> str:
    """Return a script written inside a test: without its indentation and its first line end."""
    return dedent(text).lstrip("\n")


def script(epoch: str = "pass", before: str = "", after: str = "") -> str:
    """Return `SCRIPT` with statements at the end of the epoch loop, before it and after it."""
    text = SCRIPT.replace("BEFORE", code(before).rstrip()).replace("AFTER", code(after).rstrip())
    return text.replace("EPOCH", indent(code(epoch).rstrip(), "    ")).lstrip("\n")


def source_of(text: str | bytes, name: str = "train.py") -> Source:
    """Return a script's source as if read from the working folder."""
    return Source(Path(name), text if isinstance(text, bytes) else text.encode(), name)


@cache
def recipe() -> Recipe:
    """Return the shipped recipe."""
    return load_recipe(RECIPE_FOLDER)


def survey_of(
    text: str, metric: str = "", mode: str = "", model: str = "", in_process: bool = False, optimizer: str = ""
) -> Script:
    """Return the survey of a script, as an apply sees it."""
    known = recipe()
    choices = Choices(
        metric, mode, model, optimizer, known.module_functions, known.provided, known.handover, in_process
    )
    return survey(source_of(code(text)), choices)


def plan_of(folder: Path, text: str | bytes, options: Options | None = None) -> Plan:
    """Return the plan of an apply on a script in ``folder``."""
    path = folder / "train.py"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return make_plan(path, "train.py", recipe(), options or Options())


def rewritten(plan: Plan) -> str:
    """Return the entry script's new text."""
    return next(file.after for file in plan.files if file.path.name == "train.py").decode()


def index_of(text: str | bytes) -> Index:
    """Return the index of a file's text."""
    return Index(source_of(text))


def edited(text: str | bytes, *changes: tuple[str, str, str]) -> str:
    """Return a text with edits applied, each given as (kind, the code of the node that it is about, new code)."""
    index = index_of(text)
    return rewrite(index, edits_of(index, *changes))


def edits_of(index: Index, *changes: tuple[Kind | str, str, str]) -> list[Edit]:
    """Return edits given as (kind, the code of the node that it is about, new code); the outermost such node counts."""
    return [
        Edit(kind, index.source.module if not at else _node(index, at), new, f"TST{number:03}")  # type: ignore[arg-type]
        for number, (kind, at, new) in enumerate(changes, start=1)
    ]


def _node(index: Index, at: str) -> cst.CSTNode:
    nodes: list[cst.CSTNode] = [statement.node for statement in index.statements]
    nodes += [node for node in index.parents if isinstance(node, cst.BaseExpression)]
    return next(node for node in nodes if index.source.code(node).strip() == at)


def refusal_of(make: Callable[[], object]) -> UserError:
    """Return the user error that ``make`` raises; any other error fails the test in a line, without its long trace."""
    try:
        make()
    except UserError as error:
        return error
    except Exception as error:
        pytest.fail(f"{type(error).__name__}: {error}", pytrace=False)
    pytest.fail("nothing was refused", pytrace=False)


def bug(reason: str) -> pytest.MarkDecorator:
    """Mark a test that fails because of a known mistake in the code."""
    return pytest.mark.xfail(strict=True, reason=reason)


def plan_of_project(script: Path) -> Plan:
    """Return the plan for a script on disk, its questions included."""
    return make_plan(script, script.name, recipe(), Options())
