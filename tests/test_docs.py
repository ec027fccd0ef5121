"""The documentation: nothing is missing, what it shows is what happens, and links and searches lead somewhere."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
from lunr.builder import Builder
from lunr.index import Index
from lunr.stemmer import stemmer
from lunr.stop_word_filter import stop_word_filter
from lunr.trimmer import trimmer

from docs import picture
from docs.generate import DOCS, PARTS, ROOT, current, pages
from docs.vocabulary import Word, apply_kinds, check_kinds, layers, words_of
from retrofit.cli import main
from retrofit.edits import KINDS
from retrofit.habits.file import TrainingFile
from retrofit.keys import KEYS
from retrofit.rules import Rule, load_recipe
from retrofit.rules_folder import rules_folder
from retrofit.survey.sites.base import Site
from retrofit.toml import read_toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGES = pages()
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
RECIPES = {name: load_recipe(rules_folder() / name) for name in ("perforatedai", "ddp")}
RULES = [rule for recipe in RECIPES.values() for rule in recipe.rules]
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def plain(text: str) -> str:
    """Return a text with white space and Markdown's marks made equal."""
    return " ".join(re.sub(r"[`\\]", "", unescape(text)).split())


each_page = pytest.mark.parametrize("name", NAMES)


# What pages hold


@each_page
def test_what_comes_from_the_code_is_current(name: str) -> None:
    assert text_of(name) == current(ROOT / name), "run python -m docs.generate, and read what it changes"


def test_every_part_that_can_be_made_is_on_a_page() -> None:
    placed = [part for name in NAMES for part in re.findall(r"<!-- begin: ([\w-]+) -->", text_of(name))]
    assert sorted(placed) == sorted(PARTS)


@pytest.mark.parametrize("name", ["", *main.commands])
def test_every_option_is_described(name: str) -> None:
    heading = f"## retrofit {name}" if name else "# Commands and options"
    section = re.search(rf"^{heading}\n(.*?)(?=^## |\Z)", text_of("docs/commands.md"), re.DOTALL | re.MULTILINE)
    assert section is not None
    for parameter in (main.commands[name] if name else main).params:
        shown = isinstance(parameter, click.Option) and not parameter.hidden
        for option in parameter.opts if shown else ():
            assert re.search(rf"(?<=[` ]){option}(?=[` ,])", section[1]), option


@pytest.mark.parametrize("rule", RULES, ids=[rule.code for rule in RULES])
def test_every_rule_is_explained(rule: Rule) -> None:
    page = text_of(f"docs/rules/{'apply' if rule in RECIPES['perforatedai'].rules else 'check'}.md")
    section = re.search(rf"^## {rule.code} {rule.name}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    assert section is not None
    for said in (rule.title, rule.why, rule.source):
        assert plain(said) in plain(section[1])
    assert f"[{rule.code}](" in text_of("docs/rules/index.md")


def all_words() -> Iterator[tuple[type, Word]]:
    parts = [part for kinds in (apply_kinds(), check_kinds()) for classes in layers(kinds).values() for part in classes]
    for cls in dict.fromkeys([Site, TrainingFile, *parts]):
        yield from ((cls, word) for word in words_of(cls))


def test_every_word_of_a_site_is_explained() -> None:
    page = text_of("docs/vocabulary.md")
    for cls, word in all_words():
        assert word.meaning, f"{cls.__name__}.{word.name} has no docstring"
        assert f"| `{word.name}` |" in page, f"{cls.__name__}.{word.name}"


def test_every_kind_of_site_is_in_the_vocabulary() -> None:
    page = text_of("docs/vocabulary.md")
    for kind in (*apply_kinds(), *check_kinds()):
        assert f"\n### `{kind}`\n" in page


@pytest.mark.parametrize("rule", RULES, ids=[rule.code for rule in RULES])
def test_rules_use_words_of_the_vocabulary(rule: Rule) -> None:
    known = {word.name.partition("(")[0] for _, word in all_words()}
    remarks = (*rule.asks, *rule.notes)
    code = [rule.when, rule.message, rule.unsure, *(f"{one.when} {one.message} {one.at}" for one in remarks)]
    code += [f"{change.when} {change.template}" for change in rule.changes]
    used = re.findall(r"\b(?:script|site|file)\.(\w+)", " ".join(code))
    assert set(used) - known == set()


def test_the_guide_has_every_edit_and_key() -> None:
    guide = text_of("docs/rule-authors.md")
    for name in (*KINDS, *(Rule.__dataclass_fields__.keys() - {"path"})):
        shown = {"changes": "edits"}.get(name, name)
        assert re.search(rf"`\[{{0,2}}{shown}\]{{0,2}}`", guide), name


def test_every_key_of_the_settings_is_explained() -> None:
    page = text_of("docs/settings.md")
    for key in KEYS:
        assert f"| `{key.name}` |" in page


def test_every_code_of_retrofit_is_explained() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "retrofit").rglob("*.py"))
    explained = re.findall(r"^\| (RF\d{3}) \|", text_of("docs/troubleshooting.md"), re.MULTILINE)
    assert explained == sorted(set(re.findall(r"\bRF\d{3}\b", code)))


def parts(node: ast.AST) -> list[str]:
    """Return the literal parts of a text."""
    if isinstance(node, ast.BinOp):
        return [*parts(node.left), *parts(node.right)]
    values = node.values if isinstance(node, ast.JoinedStr) else [node]
    return [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def launcher_messages() -> Iterator[list[str]]:
    """Yield the literal parts of the first sentence of what the launcher says, a list a message."""
    rules = rules_folder() / "perforatedai"
    text = (rules / "train_distributed.sh.j2").read_text(encoding="utf-8")
    for said in re.findall(r"\bfail \d+ \"([^\"]*)\"", text.replace("\\\n", "")):
        yield re.split(r"\$\{[^}]*\}|\$\w+", said.partition(". ")[0])
    program = "\n".join(RECIPES["perforatedai"].launcher_sources.values())
    for node in ast.walk(ast.parse(program.replace("from __future__ import annotations\n", ""))):
        if isinstance(node, ast.Call):
            name, place = (node.func.id, 0) if isinstance(node.func, ast.Name) else (getattr(node.func, "attr", ""), 1)
            if name in ("say", "fail") and any(message := parts(node.args[place])):
                yield "\0".join(message).partition(". ")[0].split("\0")


def helper_messages() -> Iterator[list[str]]:
    """Yield the literal parts of the first line of what the helper says, a list a message."""

    def said(node: ast.AST) -> ast.expr | None:
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("_pai_say", "_pai_fail"):
            return node.args[0]
        return node.value if isinstance(node, ast.Return) and isinstance(node.value, ast.JoinedStr) else None

    for text in RECIPES["perforatedai"].helper_sources.values():
        for function in (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)):
            faults = function.name.endswith("_fault")  # returns what is said later
            for node in ast.walk(function):
                message = said(node)
                if message is not None and (faults or not isinstance(node, ast.Return)):
                    yield "\0".join(parts(message)).partition("\n")[0].split("\0")


@pytest.mark.parametrize("messages", [launcher_messages, helper_messages], ids=["launcher", "helper"])
def test_every_message_of_a_training_is_explained(messages: Any) -> None:
    page = plain(text_of("docs/troubleshooting.md"))
    found = list(messages())
    assert len(found) > 20
    for message in found:
        longest = max(message, key=len).split()
        assert " ".join(longest[:6]) in page, " ".join(message)


def test_all_that_the_helper_remembers_is_declared() -> None:
    """No type checker sees its sources."""
    nodes = [node for text in RECIPES["perforatedai"].helper_sources.values() for node in ast.walk(ast.parse(text))]
    (state,) = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == "_PaiState"]
    declared = {getattr(node.target, "id", "") for node in state.body if isinstance(node, ast.AnnAssign)}
    declared |= {node.name for node in state.body if isinstance(node, ast.FunctionDef)}
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "_pai"}
    assert len(used) > 50
    assert used <= declared


def test_what_is_said_to_be_tried_is_a_test() -> None:
    rows = [row for row in text_of("docs/launching.md").splitlines() if re.search(r"`test_\w+`", row)]
    assert len(rows) > 10
    for row in rows:
        file = re.search(r"`(test_\w+\.py)`", row)
        tests = (ROOT / "tests" / (file[1] if file else "test_faults_of_runs.py")).read_text("utf-8")
        for name in re.findall(r"`(test_\w+)`", row):
            assert f"def {name}(" in tests


# Links


def slug(heading: str) -> str:
    """Return a heading's anchor, which is the same on the site and on the repository's page."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", plain(heading)).strip().lower())


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))


@pytest.mark.parametrize("name", [*NAMES, "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^()\s]+)\)", without_code(text_of(name)))
    for link in links:
        target = urlsplit(link)
        if target.scheme:
            assert target.scheme == "https", link
            assert re.fullmatch(r"[\w.-]+\.\w+", target.netloc), link
            continue
        path = ROOT / name if not target.path else ((ROOT / name).parent / target.path).resolve()
        assert path.is_file(), link
        if name.startswith("docs/"):
            assert path.is_relative_to(DOCS), f"{link} leads out of the site"
        if target.fragment:
            headings = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
            assert target.fragment in [slug(heading) for heading in headings], link


def test_the_repository_has_one_address() -> None:
    home = read_toml(ROOT / "pyproject.toml", "")["project"]["urls"]["Homepage"]
    for path in [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "mkdocs.yml"))]:
        for link in re.findall(r"https://github\.com/[^/\s]*retrofit[^\s)>\"']*", path.read_text(encoding="utf-8")):
            assert link.startswith(home), f"{path.name}: {link}"


# Code blocks


@each_page
def test_python_blocks_compile(name: str) -> None:
    for kind, text in FENCE.findall(text_of(name)):
        if kind == "python":
            compile(dedent(text), name, "exec", dont_inherit=True)


@each_page
def test_toml_blocks_are_valid(name: str) -> None:
    for kind, text in FENCE.findall(text_of(name)):
        if kind == "toml":
            tomllib.loads(text)


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield every call of retrofit in a page: of code blocks and of code in a line."""
    found = []
    for kind, block in FENCE.findall(text):
        if kind in ("sh", "console", "yaml"):
            found += re.findall(r"(?:^|\$ |run: |&& )(retrofit [^|>\n]*)", block, re.MULTILINE)
    found += re.findall(r"`(retrofit [a-z][^`|]*)`", FENCE.sub("", text))
    for command in found:
        yield shlex.split(command.replace("...", ""), comments=True)


@pytest.mark.parametrize("name", [*NAMES, "CONTRIBUTING.md", "SECURITY.md"])
def test_commands_and_their_options_exist(name: str) -> None:
    for _, command, *words in commands_in(text_of(name)):
        if command.startswith("-"):
            continue
        assert command in main.commands, command
        options = {option for parameter in main.commands[command].params for option in parameter.opts} | {"--help"}
        given = words[: words.index("--")] if "--" in words else words
        for word in given:
            if word.startswith("--"):
                assert word.partition("=")[0] in options, f"retrofit {command} {word}"


def test_the_readme_and_the_site_say_the_same_commands() -> None:
    documented = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    readme = text_of("README.md")
    lines = [line for kind, block in FENCE.findall(readme) if kind == "sh" for line in block.splitlines()]
    for line in [*lines, *re.findall(r"`(retrofit [a-z][^`]*)`", readme)]:
        if line != "python3 bootstrap.py test":  # for those who change retrofit
            assert re.search(rf"(?<!\S|-){re.escape(line)}(?![\w-])|`{re.escape(line)}`", documented), line
    assert "python3 bootstrap.py test" in text_of("CONTRIBUTING.md")


# The picture


def test_the_picture_shows_its_record_and_needs_nothing_else() -> None:
    record = (picture.IMAGES / "retrofit.txt").read_text(encoding="utf-8")
    drawn = (picture.IMAGES / "retrofit.svg").read_text(encoding="utf-8")
    shown = re.sub(r"\s", "", unescape(re.sub(r"<[^>]*>", "", drawn)).replace("\xa0", " "))
    for line in record.splitlines():
        assert len(line) <= picture.WIDTH
        assert re.sub(r"\s", "", line) in shown
    for text in (drawn, picture.draw(record)):
        assert re.findall(r"https?://[^\"']*", text) == ["http://www.w3.org/2000/svg"]
        assert "@font-face" not in text


# The site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    return folder


def test_every_page_is_on_the_site_and_nothing_else(site: Path) -> None:
    made = {str(path.relative_to(site).with_suffix(".md")) for path in site.rglob("*.html")} - {"404.md"}
    assert made == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert not [path for path in site.rglob("*") if path.suffix in (".py", ".txt")]


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]*)\"", text)
        loaded += re.findall(r"<link[^>]*rel=\"(?:stylesheet|preconnect|icon|preload)\"[^>]*href=\"([^\"]*)\"", text)
        loaded += re.findall(r"<link[^>]*href=\"([^\"]*)\"[^>]*rel=\"(?:stylesheet|preconnect|icon|preload)\"", text)
        loaded += re.findall(r"(?:url\(|@import )[\"']?(https?:[^\"')]*)", text)
        assert [one for one in loaded if re.match(r"(https?:)?//", one)] == []


# Questions as people have them, and the page that answers each.
QUESTIONS = {
    "what does it do to my code": "how-it-works",
    "what it changes in my script": "how-it-works",
    "can I go back": "undo",
    "restore my original files": "undo",
    "what does it cost": "costs",
    "how much slower is training": "costs",
    "how do I load the result": "inference",
    "load trained model for inference": "inference",
    "what if it stops": "launching",
    "resume interrupted training": "launching",
    "which GPUs": "launching",
    "choose CUDA_VISIBLE_DEVICES": "launching",
    "several machines": "launching",
    "multi-node two machines": "launching",
    "is my data read": "privacy",
    "does it send my data anywhere": "privacy",
    "how do I know it paid off": "paid-off",
    "did dendrites help": "paid-off",
    "what does it refuse": "limits",
    "does it support FSDP": "limits",
}


class Search:
    """What the site's search box finds: lunr, with its settings, and weighed as Material for MkDocs does."""

    def __init__(self, path: Path) -> None:
        data = json.loads(path.read_text(encoding="utf-8"))
        config = data["config"]
        assert config["pipeline"] == ["trimmer", "stopWordFilter", "stemmer"]
        self._separator = re.compile(config["separator"])
        builder = Builder()
        builder.pipeline.add(trimmer, stop_word_filter, stemmer)
        builder.search_pipeline.add(stemmer)
        builder.b(0)
        builder.ref("location")
        for field in ("title", "text"):
            builder.field(field, boost=int(config["fields"][field]["boost"]))
        for document in data["docs"]:
            texts = {field: self._words(re.sub(r"<[^>]+>", " ", document[field])) for field in ("title", "text")}
            builder.add({"location": document["location"], **texts})
        self._index: Index = builder.build()

    def _words(self, text: str) -> str:
        return self._separator.sub(" ", unescape(text))

    def pages(self, question: str) -> list[str]:
        """Return the pages that are found, the best first."""
        words = self._words(question.lower()).split()
        found = []
        for result in self._index.search(" ".join(words)):
            share = len(result["match_data"].metadata) / len(words)
            whole = "#" not in result["ref"]
            found.append((result["score"] * (1 + (whole + share) ** 2), result["ref"]))
        return list(dict.fromkeys(place.partition(".html")[0] for _, place in sorted(found, reverse=True)))


@pytest.fixture(scope="module")
def search(site: Path) -> Search:
    return Search(site / "search" / "search_index.json")


@pytest.mark.parametrize(("question", "page"), QUESTIONS.items())
def test_a_search_finds_the_page_that_answers(search: Search, question: str, page: str) -> None:
    assert page in search.pages(question)[:3]
