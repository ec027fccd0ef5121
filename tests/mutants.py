"""Fixtures with lines changed at random, files of other people, and what must hold of a run on any of them.

    python -m tests.mutants fixtures NUMBER SEED [FIRST]
    python -m tests.mutants installed NUMBER SEED [FIRST]

What is looked at is looked at here by other means than retrofit's own proof: by Python's `ast` and by bytes.
"""

from __future__ import annotations

import ast
import io
import random
import re
import shutil
import sys
import sysconfig
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner

from retrofit.cli import main
from retrofit.edits import Edit
from retrofit.options import Options
from retrofit.plan import make_plan
from tests.helpers import recipe
from tests.projects import FIXTURES, load_projects

State = dict[str, tuple[int, bytes]]
_LOCATED = re.compile(r"\S.*: [A-Z]{2,3}\d{2,3} ")

# ---- how lines are changed


def _pick(lines: list[str], dice: random.Random, wanted: Callable[[str], object] = bool) -> int:
    places = [number for number, line in enumerate(lines) if wanted(line.strip())]
    return dice.choice(places) if places else 0


def delete(lines: list[str], dice: random.Random) -> None:
    """Take a line away."""
    del lines[_pick(lines, dice)]


def double(lines: list[str], dice: random.Random) -> None:
    """Write a line twice."""
    number = _pick(lines, dice)
    lines.insert(number, lines[number])


def swap(lines: list[str], dice: random.Random) -> None:
    """Let two lines change places."""
    number = min(_pick(lines, dice), len(lines) - 2)
    lines[number : number + 2] = reversed(lines[number : number + 2])


def comment(lines: list[str], dice: random.Random) -> None:
    """Put a comment between two lines, or behind one."""
    number = _pick(lines, dice)
    text = f"# note {dice.randrange(5)}"
    if dice.random() < 0.5:
        indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
        lines.insert(number, dice.choice([indent, "", "      "]) + text)
    elif not lines[number].endswith("\\"):
        lines[number] += f"  {text}"


def blank(lines: list[str], dice: random.Random) -> None:
    """Put an empty line, or one of white space, between two."""
    lines.insert(_pick(lines, dice), dice.choice(["", "", "    ", "\t"]))


def join(lines: list[str], dice: random.Random) -> None:
    """Put a statement behind a colon, or behind another one of its indentation."""
    number = _pick(lines, dice, lambda line: line and not line.startswith(("#", "@")))
    following = lines[number + 1].strip() if number + 1 < len(lines) else ""
    if following:
        space = " " if lines[number].rstrip().endswith(":") else "; "
        lines[number : number + 2] = [lines[number].rstrip() + space + following]


def spread(lines: list[str], dice: random.Random) -> None:
    """Put the arguments of a call on lines of their own, each with a comment."""
    number = _pick(lines, dice, lambda line: "(" in line and line.endswith(")"))
    head, bracket, rest = lines[number].partition("(")
    indent = " " * (len(head) - len(head.lstrip()) + 4)
    parts = re.split(r", (?=[^()\[\]]*\)?$)", rest[:-1])
    if bracket and all(part.count("(") == part.count(")") for part in parts):
        comma = dice.choice([",", ""])
        body = [f"{indent}{part}{',' if part is not parts[-1] else comma}  # part {n}" for n, part in enumerate(parts)]
        lines[number : number + 1] = [f"{head}(  # begin", *body, indent[4:] + ")"]


def tabs(lines: list[str], dice: random.Random) -> None:
    """Indent with tabs."""
    lines[:] = [re.sub(r"^(?: {4})+", lambda match: "\t" * (len(match[0]) // 4), line) for line in lines]


def quotes(lines: list[str], dice: random.Random) -> None:
    """Swap the kinds of quotes in a line."""
    number = _pick(lines, dice, lambda line: "'" in line)
    lines[number] = lines[number].translate(str.maketrans("'\"", "\"'"))


CHANGES = (delete, double, swap, comment, comment, comment, blank, join, spread, spread, tabs, quotes)


def mutate(data: bytes, dice: random.Random) -> bytes:
    """Return a file changed at some places at random."""
    lines = data.decode("latin-1").replace("\r\n", "\n").split("\n")  # whatever their encoding
    for change in dice.choices(CHANGES, k=dice.randint(1, 4)):
        if len(lines) > 2:
            change(lines, dice)
    return dice.choice(["\n", "\n", "\n", "\r\n", "\r"]).join(lines).encode("latin-1")


# ---- what must hold


class WrongError(AssertionError):
    """Something does not hold."""


def _holds(condition: object, what: str) -> None:
    if not condition:
        raise WrongError(what)


def _run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(words))
    _holds(result.exception is None or isinstance(result.exception, SystemExit), f"{words}: {result.exception!r}")
    _holds(result.exit_code in (0, 1, 2), f"{words}: {result.exit_code}: {result.output}")
    if result.exit_code == 2:
        wrong = [line for line in result.stderr.splitlines() if not _LOCATED.match(line)]
        _holds(result.stderr and not wrong, f"{words}: no located line: {wrong}")
    return result.exit_code, result.output


def state(folder: Path) -> State:
    """Return mode and bytes of each file."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".retrofit" not in path.parts
    }


def look(folder: Path, script: str, options: Sequence[str] = ()) -> str:
    """Apply to a script, apply again, repair and undo both, and return what came of it.

    Raises:
        WrongError: something does not hold.
    """
    before = state(folder)
    edits = _edited_lines(folder / script) if not options else None
    code, said = _run("apply", str(folder / script), *options)
    after = state(folder)
    if code:
        _holds(after == before, f"refused, and changed all the same: {said}")
    else:
        _compare(before, after, edits)
        _holds("nothing to do" in _run("apply", str(folder / script))[1], "a second apply does something")
        _holds(state(folder) == after, "a second apply changes something")
    _repaired(folder)
    if after != before:
        _holds(_run("undo", str(folder / script))[0] == 0, "undo fails")
    _holds(state(folder) == before, "undo does not bring everything back")
    _holds(not (folder / ".retrofit").exists(), "undo leaves something")
    return "refused" if code else "rewritten" if after != before else "nothing to do"


def _repaired(folder: Path) -> None:
    """Repair everything in a folder, look at it, and take it back."""
    before = state(folder)
    _run("check", "--fix", "--unsafe-fixes", "--jobs", "1", str(folder))
    after = state(folder)
    _compare(before, after, None)
    for name in [name for name in after if after[name] != before.get(name)]:
        _holds(_run("undo", "--steps", "1", str(folder / name))[0] == 0, f"undo of a fix of {name} fails")
    _holds(state(folder) == before, "undo does not bring back what a fix changed")


def _compare(before: State, after: State, edits: dict[str, set[int]] | None) -> None:
    for name, (mode, data) in before.items():
        now_mode, now = after[name]
        _holds(now_mode == mode, f"{name}: its mode changes")
        if now == data or not name.endswith(".py"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(now, name, "exec")
        rest = iter(_comments(now))
        lost = [comment for comment in _comments(data) if comment not in rest]
        _holds(not lost, f"{name}: {lost[:1]} is lost")
        if edits is not None:
            lines = iter(now.splitlines(keepends=True))
            numbered = enumerate(data.splitlines(keepends=True), 1)
            kept = [line for number, line in numbered if number not in edits.get(name, ())]
            gone = [line for line in kept if not any(line in (one, one.rstrip(b"\r\n")) for one in lines)]
            _holds(not gone, f"{name}: {gone[:1]} is gone")


def _comments(data: bytes) -> list[str]:
    text = re.sub(rb"\r\n?", b"\n", data)
    return [token.string for token in tokenize.tokenize(io.BytesIO(text).readline) if token.type == tokenize.COMMENT]


def _edited_lines(script: Path) -> dict[str, set[int]]:
    """Return the lines of the statements that an apply says it edits, by the files' paths from the script's project."""
    try:
        plan = make_plan(script, str(script), recipe(), Options())
    except Exception:  # which the command says better
        return {}
    found: dict[str, set[int]] = {}
    root = script
    while not (root / "root-of-mutant").exists():
        root = root.parent
    for edit in plan.edits:
        if edit.kind in ("replace", "guard", "remove", "set-keyword"):
            source = plan.script.index.source.file(edit.node)
            name = str(Path(source.path).relative_to(Path(root).resolve()))
            found.setdefault(name, set()).update(
                _statement_lines(source.data, *source.position(edit.node), edit, source)
            )
    for file in plan.script.index.files:  # statements that shared a line may have got lines of their own
        name = str(file.source.path.relative_to(Path(root).resolve()))
        laid = set(file.source.text.splitlines())
        lines = file.source.data.decode(file.source.encoding).splitlines()
        found.setdefault(name, set()).update(number for number, line in enumerate(lines, 1) if line not in laid)
    return found


def _statement_lines(data: bytes, line: int, column: int, edit: Edit, source: object) -> Iterator[int]:
    """Yield the lines of the statement that holds a place, as Python's own parser sees them."""
    tree = ast.parse(data)
    spans = [
        (node.lineno, node.end_lineno or node.lineno, node)
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    first, last, _ = min(spans, key=lambda span: span[1] - span[0])
    if edit.last is not None:
        end = source.position(edit.last)[0]  # type: ignore[attr-defined]
        last = max(n.end_lineno or 0 for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno == end)
    yield from range(first, last + 1)
    blank = first - 1
    texts = data.splitlines()
    while edit.kind == "remove" and blank and not texts[blank - 1].strip():
        yield blank
        blank -= 1


# ---- many of them


def mutants(number: int, seed: int) -> Iterator[tuple[str, Path, str, Sequence[str]]]:
    """Yield mutants of the fixtures, each with what it is, in a folder of its own."""
    projects = load_projects()
    for one in range(number):
        dice = random.Random(f"{seed} {one}")
        project = dice.choice(projects)
        with TemporaryDirectory(prefix="mutant-") as made:
            folder = Path(made).resolve()
            shutil.copytree(FIXTURES / project.name / "before", folder, dirs_exist_ok=True)
            (folder / "root-of-mutant").touch()
            (folder / ".git").mkdir()
            files = sorted(folder.rglob("*.py"))
            for path in {folder / project.entry, dice.choice(files)}:
                path.write_bytes(mutate(path.read_bytes(), dice))
            yield f"mutant {one} of {project.name}", folder, project.entry, project.options


def installed(number: int, seed: int) -> Iterator[tuple[str, Path, str, Sequence[str]]]:
    """Yield files of Python's library and of what is installed, each as a script in a folder of its own."""
    folders = {sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")}
    files = sorted({path for folder in folders for path in Path(folder).rglob("*.py") if path.stat().st_size < 2e6})
    for path in random.Random(seed).sample(files, number):
        with TemporaryDirectory(prefix="installed-") as made:
            folder = Path(made).resolve()
            (folder / "root-of-mutant").touch()
            (folder / ".git").mkdir()
            (folder / "train.py").write_bytes(path.read_bytes())
            yield str(path), folder, "train.py", ()


def run(words: list[str]) -> int:
    """Look at as many as the command line says."""
    kind, number, seed, first = words[0], int(words[1]), int(words[2]), int((words[3:] or ["0"])[0])
    seen: Counter[str] = Counter()
    for one, (what, folder, script, options) in enumerate(
        {"fixtures": mutants, "installed": installed}[kind](number, seed)
    ):
        if one < first:
            continue
        try:
            seen[look(folder, script, options)] += 1
        except (WrongError, SyntaxError, ValueError, tokenize.TokenError) as error:
            seen["wrong"] += 1
            print(f"{what}: {type(error).__name__}: {error}", flush=True)
    print(dict(seen))
    return seen["wrong"] > 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
