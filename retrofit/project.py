"""The entry script and the modules of its project that it imports."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from retrofit.errors import UserError
from retrofit.launch import MARK
from retrofit.source import Source, read_source

#: What a file must mention to matter: training, its wrapper, its options. Models and data sets mostly do not.
_RELEVANT = re.compile(
    rb"DataParallel|\bbackward\(|\boptim|lr_scheduler|ArgumentParser|parse_args|perforatedai|\bepoch"
)
_PROJECT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_INSTALLED = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True)
class Project:
    """An entry script with what it imports from its own project.

    Attributes:
        entry: the script.
        modules: the imported files that matter, by the full names of their modules.
    """

    entry: Source
    modules: Mapping[str, Source] = field(default_factory=dict)

    def with_texts(self, texts: Mapping[Source, str]) -> Project:
        """Return the project with other texts for some of its files."""

        def changed(source: Source) -> Source:
            text = texts.get(source)
            return source if text is None else Source(source.path, source.encode(text), source.shown)

        return Project(changed(self.entry), {name: changed(source) for name, source in self.modules.items()})


def load_project(path: Path, shown: str) -> Project:
    """Read an entry script, and follow its imports as far as they lead to files of its project.

    Imports are looked for beside the script, where it adds constant paths to `sys.path`, and in its project's root and
    `src` there. Left out are files that cannot be read or parsed, that say nothing of training, or that retrofit made.

    Args:
        path: the script.
        shown: how messages name it.

    Raises:
        UserError: the script itself cannot be read or parsed.
    """
    entry = read_source(path, shown)
    folder = Path(os.path.dirname(shown))
    found: dict[Path, str] = {}
    relevant: dict[str, Source] = {}
    roots = _roots(entry)
    waiting = [(entry.path, "", entry.data)]
    while waiting:
        here, name, data = waiting.pop(0)
        for module in _imports(here, name, data):
            for part in _with_parents(module):
                file = _find(part, roots)
                if file is None or file == entry.path or file in found:
                    continue
                found[file] = part
                try:
                    code = file.read_bytes()
                except OSError:
                    continue
                waiting.append((file, part, code))
                if b"sys.path." in code:
                    roots = list(dict.fromkeys([*roots, *_added_folders(file, code.decode(errors="replace"))]))
                passes_on = file.name == "__init__.py" and b"import " in code
                if (passes_on or _RELEVANT.search(code)) and MARK.encode() not in code[:200]:
                    try:
                        relevant[part] = read_source(file, str(folder / os.path.relpath(file, entry.path.parent)))
                    except UserError:
                        continue
    return Project(entry, relevant)


def _roots(entry: Source) -> list[Path]:
    """The folders in which Python, or an installation for development, looks for the project's modules."""
    roots = [entry.path.parent, *_added_folders(entry.path, entry.text)]
    root = next((p for p in entry.path.parents if any((p / mark).exists() for mark in _PROJECT_MARKS)), None)
    if root is not None and root != Path.home():
        roots += [root, root / "src"]
    return list(dict.fromkeys(roots))


def _added_folders(path: Path, text: str) -> Iterator[Path]:
    """Yield the folders that a file adds to `sys.path`, at once or by a name (`lib = join(here, "..", "lib")`)."""
    at_once = r"sys\.path\.(?:append|insert)\((.*)\)"
    named = r"^[ \t]*\w+ *= *(?:os\.path\.|osp\.)?join\((.*)\)" if "sys.path." in text else at_once
    for match in (*re.finditer(at_once, text), *re.finditer(named, text, re.MULTILINE)):
        steps = re.findall(r"""["']([^"']*)["']""", match[1])
        if steps and not any(os.path.isabs(step) for step in steps):
            folder = Path(os.path.normpath(path.parent.joinpath(*steps)))
            if folder.is_dir():
                yield folder


def _imports(path: Path, name: str, data: bytes) -> Iterator[str]:
    """Yield the full names of the modules, or of members of modules, that a file imports."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) + 1 - node.level], *([node.module] if node.module else [])]
            prefix = ".".join(base) if node.level else node.module or ""
            yield prefix
            yield from (f"{prefix}.{alias.name}" for alias in node.names if alias.name != "*")


def _with_parents(module: str) -> Iterator[str]:
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        if parts[end - 1]:
            yield ".".join(parts[:end])


def _find(module: str, roots: list[Path]) -> Path | None:
    """Return the file of a module of the project, None where it has none."""
    for root in roots:
        base = root.joinpath(*module.split("."))
        for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if path.is_file() and _INSTALLED.isdisjoint(path.parts):
                return Path(os.path.realpath(path))
    return None
