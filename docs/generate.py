"""Make the parts of the pages that come from the code: `python -m docs.generate` writes them into the pages.

A page holds such a part between `<!-- begin: NAME -->` and `<!-- end: NAME -->`. Besides, the commands of a page's
``console`` blocks are run one after the other, and what retrofit prints is put below them: in a copy of the project
that `<!-- project: FOLDER -->` names, with the files of the page's code blocks that have a title. What trains takes too
long for that, and is not the same twice: its output is kept as it was recorded.
"""

from __future__ import annotations

import contextlib
import html
import inspect
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import click
from click.testing import CliRunner

from docs import scale
from docs.vocabulary import Word, apply_kinds, check_kinds, described, introduction, layers, shared, words_of
from retrofit.cli import main
from retrofit.cli.frame import Command
from retrofit.edits import ORIGINAL, Edit
from retrofit.habits.file import TrainingFile
from retrofit.keys import EVERYWHERE, KEYS
from retrofit.knowledge import load_knowledge
from retrofit.knowledge.kinds import KINDS, Entry, Framework
from retrofit.messages import load_messages
from retrofit.options import Options
from retrofit.plan import make_plan
from retrofit.rules import Example, Recipe, Rule, load_recipe
from retrofit.rules_folder import rules_folder
from retrofit.survey.sites.base import Site
from retrofit.templates import FILTERS, METHODS
from retrofit.toml import read_toml

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
#: The project whose rewriting the pages show.
EXAMPLE = ROOT / "fixtures" / "ddp_demo" / "before"
#: What is run anew for the pages.
_QUICK = frozenset({"inspect", "apply", "check", "undo", "rule", "--version"})

_BLOCK = re.compile(r"(<!-- begin: (?P<name>[\w-]+) -->\n).*?(<!-- end: (?P=name) -->)", re.DOTALL)
_PROJECT = re.compile(r"<!-- project: (\S+) -->")
_FENCE = re.compile(r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.DOTALL | re.MULTILINE)


def pages() -> list[Path]:
    """Return the pages of the site, and the README."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def current(page: Path) -> str:
    """Return what a page should hold."""
    text = page.read_text(encoding="utf-8")
    text = _BLOCK.sub(lambda match: f"{match[1]}\n{PARTS[match['name']]().strip()}\n\n{match[3]}", text)
    return _with_outputs(text) if "```console" in text else text


# What the commands print


@contextlib.contextmanager
def _inside(project: Path | None) -> Iterator[Path]:
    """Work in a copy of a project, or in an empty folder."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "project")
        if project is None:
            folder.mkdir()
        else:
            shutil.copytree(project, folder)
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(here)


def _with_outputs(text: str) -> str:
    project = _PROJECT.search(text)
    runner = CliRunner()

    def block(match: re.Match[str]) -> str:
        if match["kind"] == "console":
            lines = "".join(_answered(match["text"], runner))
            return f"```console\n{lines}```"
        if match["title"]:
            path = Path(match["title"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(match["text"], encoding="utf-8")
        return match[0]

    with _inside(ROOT / project[1] if project else None):
        return _FENCE.sub(block, text)


def _answered(session: str, runner: CliRunner) -> Iterator[str]:
    """Yield each command of a session, and below it what it prints now, or what was recorded."""
    status = 0
    for entry in re.split(r"^(?=\$ )", session, flags=re.MULTILINE)[1:]:
        command, _, recorded = entry.partition("\n")
        words = shlex.split(command.removeprefix("$ "))
        if words[0] == "retrofit" and words[1] in _QUICK:
            result = runner.invoke(main, words[1:])
            status, recorded = result.exit_code, result.output.rstrip("\n") + "\n"
        elif words == ["echo", "$?"]:
            recorded = f"{status}\n"
        elif words[0] == "echo" and words[2] == ">>":
            with open(words[3], "a", encoding="utf-8") as file:
                file.write(f"{words[1]}\n")
        yield f"{command}\n{recorded}"


# What is made from the code


@cache
def _recipes() -> tuple[Recipe, Recipe]:
    return load_recipe(rules_folder() / "perforatedai"), load_recipe(rules_folder() / "ddp")


def _rule_link(rule: Rule, start: str = "rules/") -> str:
    page = "check" if rule in _recipes()[1].rules else "apply"
    return f"[{rule.code}]({start}{page}.md#{rule.code.lower()}-{rule.name})"


def commands() -> str:
    """Every command with its arguments and options."""
    context = click.Context(main, info_name="retrofit", **main.context_settings)
    parts = [_prose(main.help or ""), "\n".join(_options(main, context))]
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        own = click.Context(command, parent=context, info_name=name)
        parts += [
            f"## retrofit {name}",
            f"```text\n{own.command_path} {' '.join(command.collect_usage_pieces(own))}\n```",
        ]
        parts += [_prose(command.help or ""), "\n".join(_options(command, own))]
        if isinstance(command, Command):
            shown = "\n".join(f"# {what}\n{example}" for what, example in command.examples)
            parts += [_escaped(command.on_keys()), f"```sh\n{shown}\n```"]
    return "\n\n".join(parts)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.params:
        name, text = parameter.get_help_record(context) or ("", "")
        if not text:
            continue
        default = re.search(r"\s*\[default: (.*?)\]", text)
        text = re.sub(r"\s*\[.*?\]", "", text) if default is None else text[: default.start()]
        yield f"- **`{name}`** {_escaped(text)}" + (f" *Default: {_escaped(default[1])}.*" if default else "")


def _prose(text: str) -> str:
    """Return a command's help as Markdown; a paragraph that click must not wrap is code."""
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        f"```text\n{part.removeprefix(chr(8)).strip(chr(10))}\n```"
        if part.startswith("\b")
        else _escaped(" ".join(part.split()))
        for part in parts
    )


def _escaped(text: str) -> str:
    """Return a text so that Markdown shows it as it is, but for code between backticks."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else re.sub(r"([*<\[\]])", r"\\\1", piece) for piece in pieces)


def rule_list() -> str:
    """Every rule in a line, those of apply and those of check."""
    parts = []
    for title, recipe in zip(
        ("What `retrofit apply` changes and asks", "What `retrofit check` reports"), _recipes(), strict=True
    ):
        parts += [f"## {title}", "| code | name | level | |\n| --- | --- | --- | --- |"]
        rows = [
            f"| {_rule_link(rule, '')} | {rule.name} | {rule.level} | {_cell(rule.title)} |" for rule in recipe.rules
        ]
        parts[-1] = "\n".join([parts[-1], *rows])
    return "\n\n".join(parts)


def _rule(rule: Rule, folder: str) -> Iterator[str]:
    yield f"## {rule.code} {rule.name}\n\n**{rule.title}.**"
    yield " ".join(rule.why.split())
    if rule.level:
        fixed = {"safe": "`--fix` applies it", "unsafe": "`--fix --unsafe-fixes` applies it"}.get(rule.fix)
        fix = f"{rule.fix}, {fixed}" if fixed else "`retrofit apply` does it" if rule.changes else "none"
        yield f"Level: {rule.level}. Fix: {fix}."
    for title, remarks in (("It asks:", rule.asks), ("It notes:", rule.notes)):
        if remarks:
            yield title
            yield "\n".join(f"- {_escaped(_plain(remark.message))}" for remark in remarks)
    reported = max(rule.examples, key=lambda example: (bool(example.fixed), bool(example.bad)), default=Example())
    silent = next((example.good for example in rule.examples if example.good), "")
    for title, code in (("Reported:", reported.bad), ("Fixed:", reported.fixed), ("Not reported:", silent)):
        if code:
            yield f"{title}\n\n```python\n{code.strip()}\n```"
    if rule.changes and not rule.examples:
        yield '<details markdown="1"><summary>The code that it writes</summary>'
        for change in rule.changes:
            yield f"{change.kind.replace('-{{ site.side }}', '')}, where `{' '.join(change.when.split())}`"
            if change.template.strip():
                yield f"```jinja\n{change.template.strip(chr(10))}\n```"
        yield "</details>"
    yield f"Source: {_escaped(rule.source)}. File: `{folder}/{rule.code}-{rule.name}.toml`."


def _plain(message: str) -> str:
    """Return a message's template without Jinja: `...` for what depends on the script, a slash between alternatives."""
    message = re.sub(r"\{% (else|elif)\b.*?%\}", " / ", " ".join(message.split()))
    return " ".join(re.sub(r"\{\{.*?\}\}", "...", re.sub(r"\{%.*?%\}", "", message)).split())


def _rules(recipe: Recipe) -> str:
    return "\n\n".join(part for rule in recipe.rules for part in _rule(rule, f"rules/{recipe.folder.name}"))


def apply_rules() -> str:
    """Every rule of the recipe."""
    return _rules(_recipes()[0])


def check_rules() -> str:
    """Every rule of `retrofit check`."""
    return _rules(_recipes()[1])


def example_diff() -> str:
    """What an apply changes in the example's own files."""
    with _inside(EXAMPLE):
        result = CliRunner().invoke(main, ["apply", "--dry-run", "train.py"])
    files = re.split(r"^(?=diff --git )", result.stdout, flags=re.MULTILINE)
    own = [part for part in files if "\nnew file mode" not in part]
    return f"```diff\n{''.join(own).rstrip()}\n```"


def example_changes() -> str:
    """Each rule that changes the example, in the order of the script, with its reason and its lines."""
    recipe = _recipes()[0]
    with _inside(EXAMPLE):
        plan = make_plan(Path("train.py"), "train.py", recipe, Options())
    index = plan.script.index
    rules = {rule.code: rule for rule in recipe.rules}

    def lines(edit: Edit) -> Iterator[str]:
        old = "" if edit.kind == "add-import" else index.source.code(edit.node).strip("\n")
        if edit.kind in ("replace", "remove"):
            yield from (f"-{line}" for line in inspect.cleandoc(old).splitlines())
        for line in edit.text.strip("\n").splitlines():
            sign = " " if ORIGINAL in line else "+"
            yield f"{sign}{line.replace(ORIGINAL, old.strip())}"

    found: dict[str, list[Edit]] = {}
    for edit in sorted(
        plan.edits, key=lambda edit: 0 if edit.kind == "add-import" else index.source.position(edit.node)[0]
    ):
        found.setdefault(edit.code, []).append(edit)
    parts = []
    for code, edits in found.items():
        shown = "\n\n".join("\n".join(lines(edit)) for edit in edits)
        rule = rules[code]
        parts.append(f"### {rule.title}\n\n{' '.join(rule.why.split())} ({_rule_link(rule)})\n\n```diff\n{shown}\n```")
    return "\n\n".join(parts)


def settings() -> str:
    """Every key of `[tool.retrofit]`."""
    rows = []
    for key in KEYS:
        commands = "all" if key.commands == EVERYWHERE else ", ".join(key.commands)
        cells = (commands, _escaped(key.takes.wanted), _escaped(key.default_text), _cell(key.meaning))
        rows.append(f"| `{key.name}` | {' | '.join(cells)} |")
    return "\n".join(["| key | of | value | default | meaning |", "| --- | --- | --- | --- | --- |", *rows])


def messages() -> str:
    """Every code of retrofit's own messages."""
    rows = [
        f"| {one.code} | {_cell(one.title)}. {_escaped(one.means)} | {_escaped(one.cure)} |"
        for one in load_messages().values()
    ]
    return "\n".join(["| code | what it means | what to do |", "| --- | --- | --- |", *rows])


def vocabulary() -> str:
    """Every kind of site with its words."""
    parts = [_section("Every site", Site, level="##")]
    for title, kinds in (("Sites of `apply`", apply_kinds()), ("Sites of `check`", check_kinds())):
        many = shared(kinds)
        parts.append(f"## {title}")
        parts += [_section(f"Shared: {_title(part)}", part) for part in many if part not in kinds.values()]
        for kind, classes in layers(kinds).items():
            parts.append(_section(f"`{kind}`", *[part for part in classes if part is classes[0] or part not in many]))
            others = [_title(part) for part in classes[1:] if part in many]
            if others:
                parts[-1] += f"\n\nBesides, the words of {', '.join(others)}."
    parts.append(_section("The file: `file`, in rules of `check`", TrainingFile, level="##"))
    return "\n\n".join(parts)


def _title(cls: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()


def _section(title: str, *classes: type, level: str = "###") -> str:
    words = [word for part in classes for word in words_of(part)]
    return f"{level} {title}\n\n{introduction(classes[0])}" + ("\n\n" + _words(words) if words else "")


def _words(words: Iterable[Word]) -> str:
    rows = [f"| `{word.name}` | {_code(word.type)} | {_cell(word.meaning)} |" for word in words]
    return "\n".join(["| word | type | meaning |", "| --- | --- | --- |", *rows])


def _code(text: str) -> str:
    """Return code as the cell of a table takes it, in which a bar would be taken for the cell's end."""
    return f"`{text}`" if "|" not in text else f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>"


def _cell(text: str) -> str:
    """Return a text as the cell of a table takes it."""
    text = text.replace("``", "`")
    return _escaped(text[:1].upper() + text[1:]).replace("|", "&#124;")


def names() -> str:
    """The names that the recipe gives its conditions and templates."""
    data = read_toml(rules_folder() / "perforatedai" / "recipe.toml", "RF007")
    rows = [f"| `{name}` | The name under which the file has `{module}` |" for name, module in data["imports"].items()]
    rows += [f"| `{name}` | {_code(code)} |" for key in ("values", "site_values") for name, code in data[key].items()]
    rows += [f"| `options.{name}` | {_cell(described(Options)[name])} |" for name in Options().for_rules()]
    return "\n".join(["| name | what it is |", "| --- | --- |", *rows])


def sandbox() -> str:
    """The filters and methods that rules may use."""
    filters, methods = (", ".join(f"`{name}`" for name in sorted(names)) for names in (FILTERS, METHODS))
    return f"- filters: {filters};\n- methods: {methods}."


def launcher() -> str:
    """What the launcher's first lines say of its environment and its exit status."""
    text = (rules_folder() / "perforatedai" / "train_distributed.sh.j2").read_text(encoding="utf-8")
    said = text[text.index("# Environment variables:") : text.index("set -u")]
    return "```text\n" + "\n".join(line.removeprefix("#").removeprefix(" ") for line in said.splitlines()) + "\n```"


def libraries() -> str:
    """The libraries that are recognised and refused."""
    known = load_knowledge().of(Framework)
    return "\n".join(f"- **{one.library}.** {_escaped(one.advice)}" for one in known)


def knowledge() -> str:
    """The kinds of entries of what is known of libraries, with the keys of each."""

    def keys(kind: type) -> str:
        own = {name: told for part in kind.__mro__ if part is not Entry for name, told in described(part).items()}
        return " ".join(f"`{name}`: {told}" for name, told in own.items())

    def told(kind: type) -> str:
        return f"{' '.join(introduction(kind).split())} {keys(kind)}".strip()

    rows = [f"| `{word}` | {_cell(told(kind))} |" for word, kind in KINDS.items()]
    return "\n".join(["| kind | what it does, and further keys |", "| --- | --- |", *rows])


def library_settings() -> str:
    """The settings of the library that a user may choose."""
    rows = [f"| `{name}` | `{default}` | {meaning} |" for name, (default, meaning) in _recipes()[0].settings.items()]
    return "\n".join(["| setting | default | what it does |", "| --- | --- | --- |", *rows])


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "rule-list": rule_list,
    "apply-rules": apply_rules,
    "check-rules": check_rules,
    "example-diff": example_diff,
    "example-changes": example_changes,
    "settings": settings,
    "library-settings": library_settings,
    "messages": messages,
    "vocabulary": vocabulary,
    "names": names,
    "sandbox": sandbox,
    "launcher": launcher,
    "libraries": libraries,
    "knowledge": knowledge,
    "time-lost": cache(scale.table),
}

if __name__ == "__main__":
    for path in pages():
        text = current(path)
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
