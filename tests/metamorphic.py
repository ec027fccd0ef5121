"""The same program with other comments, quotes and names, and what retrofit says of it then.

`python -m tests.metamorphic apply|check dressed|bare|renamed [NAME]` prints what differs.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

import libcst as cst
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    FunctionScope,
    GlobalScope,
    MetadataWrapper,
    ScopeProvider,
)

from retrofit.check.checker import Checker
from retrofit.check.settings import Settings
from retrofit.errors import Problem, UserError
from retrofit.options import Options
from retrofit.plan import make_plan
from retrofit.rules import load_recipe
from retrofit.rules_folder import rules_folder
from retrofit.survey.loops import VALIDATES
from retrofit.survey.scores import words
from tests.conftest import swapped
from tests.helpers import recipe
from tests.projects import load_projects
from tests.test_spellings import PLAIN, SPELLINGS

Texts = Mapping[str, str]

#: Words that mean something where they are code, and nothing in a comment.
TRIGGERS = (
    "TODO if rank == 0: dist.barrier(); destroy_process_group(); sampler.set_epoch(epoch); cuda.set_device(rank)",
    "was for epoch in range(9): loss.backward(); model.no_sync(); worker_init_fn; is_main_process()",
    "map_location find_unused_parameters all_reduce convert_sync_batchnorm LOCAL_RANK RANK warmup local-rank init_w(",
    "model.eval() torch.no_grad() best_acc validate(val_loader) resume pretrained ema deepcopy vars __dict__",
    "break return exit( torch.save( load_state_dict strips module. cuda nccl gloo isinstance(model, DDP) assert x",
    "GroupNorm clean_up( WORLD_SIZE env:// --local_rank torch.distributed.launch gpu yield model(x)",
    "requires_grad=False model.module is_initialized getenv lr .copy_( save( len(sys.argv) NotImplementedError",
)
_KEPT = re.compile(r"#\s*(noqa|retrofit|type:|-\*-|fmt:|!)|coding[:=]", re.IGNORECASE)
_NUMBERED = re.compile(r"rank|gpu|world|proc", re.IGNORECASE)
_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENCODING)
_CLAUSES = ("else", "elif", "except", "finally", "case")
_NUMBER = re.compile(r"(?<=:)\d+(:\d+)?|(?<=\bline )\d+|(?<=\blines )\d+( and \d+)?")


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def _replaced(text: str, changes: Sequence[tuple[int, int, int, str]]) -> str:
    """Return a text with stretches of lines replaced, each given as (line, first column, last column, new)."""
    lines = text.split("\n")
    for line, first, last, new in sorted(changes, reverse=True):
        lines[line - 1] = lines[line - 1][:first] + new + lines[line - 1][last:]
    return "\n".join(lines)


def commented(text: str) -> str:
    """Put comments full of words before each statement and behind it, and empty lines between."""
    changes = []
    begins, commented = True, False
    for number, token in enumerate(_tokens(text)):
        line, column = token.start
        spoken = TRIGGERS[number % len(TRIGGERS)]
        if token.type == tokenize.NEWLINE and not commented and token.string:
            changes.append((line, column, column, f"  # {spoken}"))
        if begins and token.type not in _LAYOUT and token.string:
            if token.string not in _CLAUSES and not token.line[:column].strip():
                changes.append((line, 0, 0, f"{token.line[:column]}# {spoken}\n\n"))
            begins = False
        begins = begins or token.type == tokenize.NEWLINE
        commented = token.type == tokenize.COMMENT
    return _replaced(text, changes)


def uncommented(text: str) -> str:
    """Take all comments away but those that tools read."""
    comments = (token for token in _tokens(text) if token.type == tokenize.COMMENT and not _KEPT.search(token.string))
    return _replaced(text, [(*token.start, token.end[1], "") for token in comments])


def documented(text: str) -> str:
    """Give each function and class that has none a docstring full of words."""
    changes = []
    for number, node in enumerate(ast.walk(ast.parse(text))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not ast.get_docstring(node, False):
            first = node.body[0]
            line = min(one.lineno for one in [first, *getattr(first, "decorator_list", [])])
            indent = text.split("\n")[line - 1][: first.col_offset]
            if indent and not indent.strip():
                spoken = TRIGGERS[number % len(TRIGGERS)]
                changes.append((line, 0, 0, f'{indent}"""Do it.\n\n{indent}{spoken}\n{indent}"""\n'))
    return _replaced(text, changes)


def requoted(text: str) -> str:
    """Write each string in the other kind of quotes."""
    changes = []
    for token in _tokens(text):
        found = re.fullmatch(r"([A-Za-z]*)(['\"])([^\\'\"\n]*)\2", token.string)
        if token.type == tokenize.STRING and found and "f" not in found[1].lower():
            quote = "'" if found[2] == '"' else '"'
            changes.append((*token.start, token.end[1], f"{found[1]}{quote}{found[3]}{quote}"))
    return _replaced(text, changes)


# ---- names


def telling(name: str) -> bool:
    """Whether a name is one of those whose words count: of a score, a validation, what is best."""
    known = (VALIDATES, words.VALIDATION_DATA, words.BEST, words.OF_TRAINING)
    return bool(words.direction_of(name)) or any(found.search(name) for found in known)


class _Renaming(cst.CSTTransformer):
    def __init__(self, names: Mapping[cst.CSTNode, str]) -> None:
        super().__init__()
        self._names = names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:  # noqa: N802
        new = self._names.get(original_node)
        return updated_node if new is None else updated_node.with_changes(value=new)


class Renaming:
    """Gives locals and parameters, and the names of a script that stands alone, names that say nothing."""

    def __init__(self) -> None:
        self._old: dict[str, str] = {}

    def __call__(self, texts: Texts) -> dict[str, str]:
        trees = {name: cst.parse_module(text) for name, text in texts.items()}
        kept = {name for tree in trees.values() for name in _kept(tree)}
        return {name: self._renamed(tree, kept, len(trees) == 1) for name, tree in trees.items()}

    def _renamed(self, tree: cst.Module, kept: set[str], alone: bool) -> str:
        scopes = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(ScopeProvider).values()
        kinds = (FunctionScope, GlobalScope) if alone else (FunctionScope,)
        names: dict[cst.CSTNode, str] = {}
        for scope in dict.fromkeys(scope for scope in scopes if isinstance(scope, kinds)):
            for name in sorted({one.name for one in scope.assignments} - kept):
                nodes = _places(list(scope[name])) if name[0] != "_" and not telling(name) else []
                if nodes:
                    names.update(dict.fromkeys(nodes, f"v{len(self._old)}"))
                    self._old[f"v{len(self._old)}"] = name
        renamed = tree.visit(_Renaming(names))
        assert isinstance(renamed, cst.Module)
        compile(renamed.code, "renamed", "exec")
        return renamed.code

    def back(self, text: str) -> str:
        """Return a text with the names of before."""
        return re.sub(r"\bv\d+\b", lambda found: self._old.get(found[0], found[0]), text)


def _places(assignments: Sequence[BaseAssignment]) -> list[cst.CSTNode]:
    """Return where a name stands, nothing where it is more than a local, a parameter or a variable."""
    places: list[cst.CSTNode] = []
    for one in assignments:
        node = one.node if isinstance(one, Assignment) else None
        uses = [access.node for access in one.references]
        shared = any(len({known.scope for known in access.referents}) > 1 for access in one.references)
        given = isinstance(node, cst.Param) and _NUMBERED.search(node.name.value)  # a parameter's value is not seen
        if (
            given
            or shared
            or not isinstance(node, (cst.Name, cst.Param))
            or not all(isinstance(use, cst.Name) for use in uses)
        ):
            return []
        places += [node.name if isinstance(node, cst.Param) else node, *uses]
    return places


class _Kept(cst.CSTVisitor):
    def __init__(self) -> None:
        self.names = {"self", "cls", "args", "parser"}

    def visit_Arg(self, node: cst.Arg) -> None:  # noqa: N802
        if node.keyword is not None:
            self.names.add(node.keyword.value)

    def visit_NameItem(self, node: cst.NameItem) -> None:  # noqa: N802
        self.names.add(node.name.value)


def _kept(tree: cst.Module) -> set[str]:
    """Return the names that are known elsewhere: keywords, `global` and `nonlocal` ones."""
    visitor = _Kept()
    tree.visit(visitor)
    return visitor.names


# ---- what is said


def _statements(text: str) -> list[int]:
    """Return how many statements begin up to each line, without documentation."""
    ends = [0] * (text.count("\n") + 2)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            ends[node.lineno] += 1
    return list(accumulate(ends))


def _told(problem: Problem, texts: Texts) -> str:
    text = texts.get(problem.file)
    counts = _statements(text) if text else []
    place = counts[problem.line] if counts and problem.line < len(counts) else problem.line
    message = " ".join(_NUMBER.sub("N", problem.message).replace('"', "'").split())
    return f"{problem.file}:{place} {problem.code} {message}"


class _Bare(ast.NodeTransformer):
    """Takes documentation out."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
            node.body = [
                one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
            ]
        return node


def applied(texts: Texts, entry: str, back: Callable[[str], str] = str) -> list[str]:
    """Return what an apply says and makes of a project, as syntax trees."""
    with TemporaryDirectory() as made:
        folder = Path(made).resolve()
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        try:
            plan = make_plan(folder / entry, entry, recipe(), Options())
            problems, files = [*plan.questions, *plan.notes], plan.files
        except UserError as error:
            problems, files = list(error.problems), []
        said = [back(_told(problem, texts)).replace(made, "") for problem in problems]
        for file in files:
            name = str(file.path.relative_to(folder))
            if name in texts:
                tree = _Bare().visit(ast.parse(back(file.after.decode())))
                said += [f"{name}: {line}" for line in ast.unparse(tree).splitlines()]
            elif not name.startswith("pai_distributed"):
                said += [f"{name}: {line}" for line in file.after.decode().splitlines()]
    return said


_CHECKER = Checker()


def found(text: str, back: Callable[[str], str] = str) -> list[str]:
    """Return what a check finds in a file."""
    outcome = _CHECKER.check(Path("/project/train.py"), "train.py", text.encode(), Settings())
    problems = [Problem("train.py", one.line, one.column, one.code, one.message) for one in outcome.findings]
    problems += [outcome.problem] if outcome.problem else []
    return sorted(back(_told(problem, {"train.py": text})) for problem in problems)


# ---- on what


def _text(path: Path) -> str:
    """Return a file's text, which names no encoding of its own any more."""
    with tokenize.open(path) if path.suffix == ".py" else path.open(errors="replace") as file:
        return re.sub(r"\A(#.*coding[:=]\s*)[-\w.]+", r"\1utf-8", file.read())


def scripts() -> Iterator[tuple[str, Texts, str]]:
    """Yield each fixture, and each small script in other spellings: its name, its files' texts, the entry script."""
    for project in load_projects():
        texts = {
            str(path.relative_to(project.before)): _text(path)
            for path in sorted(project.before.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts
        }
        yield project.name, texts, project.entry
    for name, (swaps, _) in SPELLINGS.items():
        yield name, {"train.py": swapped(PLAIN, *swaps)}, "train.py"


def examples() -> Iterator[tuple[str, str]]:
    """Yield each rule's examples, and the files of the fixtures: a name and a text."""
    for rule in load_recipe(rules_folder() / "ddp").rules:
        for number, example in enumerate(rule.examples if rule.site != "suppression" else ()):
            yield f"{rule.code} {number}", (example.bad or example.good).lstrip("\n")
    for name, texts, _ in scripts():
        yield from ((f"{name}/{path}", text) for path, text in texts.items() if path.endswith(".py"))


def dressed(text: str) -> str:
    """Return a file with comments, documentation and empty lines full of words, and the other kind of quotes."""
    return commented(documented(requoted(text)))


def changed(texts: Texts, change: str) -> tuple[dict[str, str], Callable[[str], str]]:
    """Return a project's files in other words, and what gives a text the names of before.

    Args:
        change: "dressed", "bare" or "renamed".
    """
    python = {name: text for name, text in texts.items() if name.endswith(".py")}
    renaming = Renaming()
    if change == "renamed":
        return {**texts, **renaming(python)}, renaming.back
    by = dressed if change == "dressed" else uncommented
    return {**texts, **{name: by(text) for name, text in python.items()}}, str


def difference(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return what of two lists of lines is not the same."""
    return [line for line in difflib.ndiff(before, after) if line[0] in "-+"]


def apply_differs(texts: Texts, entry: str, change: str) -> list[str]:
    """Return what an apply says and makes otherwise of a project in other words."""
    other, back = changed(texts, change)
    return difference(applied(texts, entry), applied(other, entry, back))


def check_differs(text: str, change: str) -> list[str]:
    """Return what a check finds otherwise in a file in other words."""
    other, back = changed({"train.py": text}, change)
    return difference(found(text), found(other["train.py"], back))


def _named(name: str, parts: Sequence[str]) -> bool:
    return not parts or any(part in name for part in parts)


def main(kind: str, change: str, *names: str) -> None:
    """Print what differs."""
    number = differing = 0
    if kind == "apply":
        every = ((name, apply_differs(texts, entry, change)) for name, texts, entry in scripts() if _named(name, names))
    else:
        every = ((name, check_differs(text, change)) for name, text in examples() if _named(name, names))
    for name, lines in every:
        number += 1
        differing += bool(lines)
        print(*([name, *lines] if lines else []), sep="\n    ", end="\n" if lines else "")
    print(f"{kind} {change}: {differing} of {number} differ")


if __name__ == "__main__":
    main(*sys.argv[1:])
