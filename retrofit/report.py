"""What retrofit says: diffs, summaries, the survey as text or JSON, and rules explained."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from retrofit.errors import shown_path
from retrofit.layout import PLAIN, View
from retrofit.plan import Plan
from retrofit.root import project_root
from retrofit.rules import Rule
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.script import Script
from retrofit.wording import counted
from retrofit.write.journal import Step
from retrofit.write.new import NewFile
from retrofit.write.undo import Restored


def names_in_diff(files: Sequence[NewFile], scripts: Sequence[Path]) -> dict[Path, str]:
    """Return how a diff names files: from the working folder, or where some lie elsewhere from the projects' root.

    Args:
        files: what changes.
        scripts: the entry scripts.
    """
    here = Path.cwd()
    if not all(file.path.is_relative_to(here) for file in files):
        entries = [Path(os.path.realpath(script)) for script in scripts]
        roots = [project_root(script) or script.parent for script in entries]
        here = Path(os.path.commonpath([*roots, *(file.path.parent for file in files)]))
    return {file.path: str(file.path.relative_to(here)) for file in files}


def diff(file: NewFile, name: str) -> bytes:
    """Return the diff of one file, in its own encoding and as `git apply` and `patch -p1` take it.

    Args:
        file: the file.
        name: how the diff names it, relative to where it is applied.
    """
    return _diff(file.before, file.after, name, file.executable)


def _diff(before: bytes | None, after: bytes | None, name: str, executable: bool) -> bytes:
    name = name.lstrip("/")
    tab = "\t" if " " in name else ""
    old = b"/dev/null" if before is None else os.fsencode(f"a/{name}{tab}")
    new = b"/dev/null" if after is None else os.fsencode(f"b/{name}{tab}")
    lines = difflib.diff_bytes(difflib.unified_diff, _byte_lines(before or b""), _byte_lines(after or b""), old, new)
    head = f"diff --git a/{name} b/{name}\n"
    if before is None or after is None:
        head += f"{'new' if before is None else 'deleted'} file mode {'100755' if executable else '100644'}\n"
    body = [line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines]
    return os.fsencode(head) + b"".join(body)


def undo_diff(files: Iterable[Restored]) -> bytes:
    """Return the diff of what an undo does, its files named from the working folder."""
    return b"".join(
        _diff(
            file.before.data if file.before is not None else None,
            file.after.data if file.after is not None else None,
            shown_path(file.path),
            any(content is not None and content.mode & 0o100 for content in (file.before, file.after)),
        )
        for file in files
        if file.before != file.after
    )


def undo_text(files: Iterable[Restored]) -> str:
    """Return a line on what an undo has done to each file, or to all of a package that it takes away or leaves."""
    why = {"merged": " (with what was edited since)", "kept": " (it was edited since)"}
    fates: dict[tuple[str, str], list[Path]] = {}
    for file in files:
        renamed = f" (was {file.was})" if file.was else ""
        needed = f" (for {', '.join(file.needed)})" if file.needed else ""
        fates.setdefault((file.how, f"{renamed}{why.get(file.how, '')}{needed}"), []).append(file.path)
    return "\n".join(
        f"{how} {name}{reason}"
        for (how, reason), paths in fates.items()
        for name in (by_package(paths) if how in ("removed", "left") else map(shown_path, paths))
    )


def by_package(new: Iterable[Path]) -> dict[str, list[Path]]:
    """Return what names files that come or go together, and the files: a new package, `helper/`, and each other file.

    Args:
        new: files that retrofit writes and that were not there, or were not there before it wrote them.
    """
    paths = list(new)
    packages = {path.parent for path in paths if path.name == "__init__.py"}
    names: dict[str, list[Path]] = {}
    for path in paths:
        package = next((folder for folder in path.parents if folder in packages), None)
        name = shown_path(path) if package is None else f"{shown_path(package)}{os.sep}"
        names.setdefault(name, []).append(path)
    return names


def steps_rows(steps: Iterable[tuple[Path, int, Step]]) -> list[tuple[str, ...]]:
    """Return a row on each step that can be undone: its number, time, command and files."""
    rows: list[tuple[str, ...]] = []
    for root, number, step in steps:
        new = by_package(root / entry.path for entry in step.entries if entry.before is None)
        old = [shown_path(root / entry.path) for entry in step.entries if entry.before is not None]
        rows.append((str(number), step.time, step.command, ", ".join([*old, *new])))
    return rows


def _byte_lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def changes(file: NewFile) -> tuple[int, int]:
    """Return how many lines of a file are added and removed."""
    matcher = difflib.SequenceMatcher(None, _byte_lines(file.before or b""), _byte_lines(file.after), autojunk=False)
    added = removed = 0
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            removed += b - a
            added += d - c
    return added, removed


def summary(plan: Plan, view: View = PLAIN) -> str:
    """Return the lines that an apply ends with."""
    lines = []
    sizes = {file.path: changes(file) for file in plan.files}
    for file in plan.files:
        if file.before is not None:
            lines.append("rewrote {} (+{} -{} lines)".format(shown_path(file.path), *sizes[file.path]))
    for name, paths in by_package(file.path for file in plan.files if file.before is None).items():
        lines.append(f"wrote {name} ({counted(sum(sizes[path][0] for path in paths), 'line')})")
    lines.append(view.table([(what, f"{value}  [{source}]") for what, value, source in plan.decisions], "  "))
    if plan.next_steps:
        lines += ["", plan.next_steps]
    return "\n".join(lines)


def survey_text(script: Script, plan: Plan, view: View = PLAIN) -> str:
    """Return the survey for people: what stands where, then what is open."""
    rows = [(f"{site.shown}:{site.line}", kind, _facts(site.facts)) for kind, site in _rows(script)]
    lines = [view.table(rows), ""] if rows else [""]
    if plan.questions:
        lines.append(f"Open questions: {len(plan.questions)}")
        lines += [view.wrap(str(problem), "  ", "  ") for problem in plan.questions]
    else:
        lines.append("No open question.")
    if plan.notes:
        lines.append("Notes:")
        lines += [view.wrap(str(problem), "  ", "  ") for problem in plan.notes]
    return "\n".join(lines)


def survey_json(script: Script, plan: Plan) -> str:
    """Return the survey for machines.

    An object with `file`, `kind`, `sites` (each with kind, file, line, column, code and facts), `questions` and `notes`
    (each with line, column, code and message).
    """
    sites = []
    for kind, site in script.sites():
        if site is script:
            continue
        line, column = site.position
        first_line = site.code.strip().splitlines()[0] if site.code.strip() else ""
        sites.append(
            {"kind": kind, "file": site.shown, "line": line, "column": column, "code": first_line, "facts": site.facts}
        )
    data = {
        "file": script.index.source.shown,
        "kind": script.kind,
        "sites": sites,
        "questions": [_problem(p) for p in plan.questions],
        "notes": [_problem(p) for p in plan.notes],
    }
    return json.dumps(data, indent=2)


def _problem(problem: object) -> dict[str, object]:
    return {key: value for key, value in vars(problem).items() if key != "file"}


def _rows(script: Script) -> list[tuple[str, Site]]:
    """Every site with its kind, file by file in the order of their lines."""
    files = script.index.files
    rows = [(kind, site) for kind, site in script.sites() if site is not script]
    return sorted(rows, key=lambda row: (files.index(row[1].file), row[1].line))


def _facts(facts: dict[str, object]) -> str:
    return ", ".join(
        f"{name} {_value(value)}" for name, value in facts.items() if value not in (None, "", {}, [], False)
    )


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name}={code}" for name, code in value.items()) + ")"
    if isinstance(value, list):
        return "/".join(str(item) for item in value)
    return str(value)


def rule_list(rules: Iterable[Rule], view: View = PLAIN) -> str:
    """Return one line a rule, with the level of what `retrofit check` reports."""
    return view.table([(rule.code, rule.name, view.graded(rule.level), rule.title) for rule in rules])


def rule_text(rule: Rule, view: View = PLAIN) -> str:
    """Explain a rule: what, why, the code that it writes or examples, what it may ask, and where it comes from."""
    head = f"{view.paint(rule.code, bold=True)} {rule.name}: {rule.title}."
    return "\n\n".join(
        "\n".join(f"    {line}".rstrip() for line in text.split("\n")) if is_code else view.wrap(text)
        for is_code, text in [(False, head), *_explained(rule)]
    )


def rule_markdown(rule: Rule) -> str:
    """Explain a rule as `rule_text` does, in Markdown and without its title."""
    return "\n\n".join(f"```python\n{text}\n```" if is_code else text for is_code, text in _explained(rule))


def _explained(rule: Rule) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a rule's explanation, each with whether it is code."""
    if rule.level:
        yield False, _counts(rule)
    yield False, _paragraph(rule.why)
    for change in () if rule.examples else rule.changes:
        what = change.kind.replace("-{{ site.side }}", " at the place where the model is built")
        yield False, f"{what}{_when(change.when)}"
        if change.template.strip():
            yield True, change.template.strip("\n")
    for title, remarks in (("asks", rule.asks), ("notes", rule.notes)):
        for remark in remarks:
            yield False, f"{title}{_when(remark.when)}:\n    {' '.join(remark.message.split())}"
    for example in rule.examples:
        for title, code in (("Reported", example.bad), ("Fixed", example.fixed), ("Not reported", example.good)):
            if code:
                yield False, f"{title}:"
                yield True, code.strip("\n")
    if rule.level:
        line = f"`# retrofit: ignore[{rule.code}]` or `# noqa: {rule.code}`"
        project = f'`ignore = ["{rule.code}"]` under `[tool.retrofit]` in pyproject.toml'
        yield False, _paragraph(f"To silence it, end the line with {line}; in a whole project, set {project}.")
    yield False, f"Source: {rule.source}"


def _counts(rule: Rule) -> str:
    level = f"Level: {rule.level}"
    if rule.unsure != "false" and rule.level != "advice":
        level += ", advice where it depends on code that the file does not show"
    if rule.fix:
        option = "--fix" if rule.fix == "safe" else "--fix --unsafe-fixes"
        return f"{level}. Fix: {rule.fix}, `retrofit check {option}` applies it."
    return f"{level}. Fix: {'`retrofit apply` does it' if rule.changes else 'none'}."


def _when(condition: str) -> str:
    return "" if condition == "true" else f", when {' '.join(condition.split())}"


def _paragraph(text: str) -> str:
    return " ".join(text.split())
