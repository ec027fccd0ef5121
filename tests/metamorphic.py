"""The same program in other words, in another layout or order, and what retrofit says of it then.

`python -m tests.metamorphic apply|check CHANGE [NAME]` prints what differs; CHANGES has their names.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import libcst as cst
from libcst.helpers import get_absolute_module_for_import
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    FunctionScope,
    GlobalScope,
    ImportAssignment,
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
_NUMBER = re.compile(r"(?<=:)\d+(:\d+)?|(?<=\bline )\d+( and \d+)*|(?<=\blines )\d+( and \d+)*")


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


def dressed(text: str) -> str:
    """Return a file with comments, documentation and empty lines full of words, and the other kind of quotes."""
    return commented(documented(requoted(text)))


# ---- layout and order

_BROKEN = (",", "/", "+", "==", "<", ">", "<=", ">=")


def wrapped(text: str) -> str:
    """Begin a new line after each comma and operator in brackets."""
    changes, depth, quoted = [], 0, 0
    for token in _tokens(text):
        kind = tokenize.tok_name[token.type]
        quoted += (kind == "FSTRING_START") - (kind == "FSTRING_END")
        if token.type == tokenize.OP and not quoted:
            depth += (token.string in "([{") - (token.string in ")]}")
            if token.string in _BROKEN and depth:
                changes.append((token.end[0], token.end[1], token.end[1], "\n" + " " * 8))
    return _replaced(text, changes)


def unwrapped(text: str) -> str:
    """Write each statement on one line of its own; a file whose comments tools read stays as it is."""
    if any(token.type == tokenize.COMMENT and _KEPT.search(token.string) for token in _tokens(text)):
        return text
    return ast.unparse(ast.parse(text)) + "\n"


class _Qualifying(cst.CSTTransformer):
    def __init__(self, names: Mapping[cst.CSTNode, str], imports: Mapping[cst.CSTNode, str]) -> None:
        super().__init__()
        self._names = names
        self._imports = imports

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:  # noqa: N802
        full = self._names.get(original_node)
        return updated_node if full is None else cst.parse_expression(full)

    def leave_ImportFrom(  # noqa: N802
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.BaseSmallStatement:
        module = self._imports.get(original_node)
        if module is None:
            return updated_node
        return cst.ensure_type(cst.parse_statement(f"import {module}"), cst.SimpleStatementLine).body[0]


def qualified(text: str) -> str:
    """Import the modules of torch, and call what was imported from them by its full name."""
    tree = cst.parse_module(text)
    scopes = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(ScopeProvider).values()
    scope = next(scope for scope in scopes if isinstance(scope, GlobalScope))
    known: dict[cst.ImportFrom, list[ImportAssignment]] = {}
    for one in scope.assignments:
        if isinstance(one, ImportAssignment) and isinstance(one.node, cst.ImportFrom):
            known.setdefault(one.node, []).append(one)
    names: dict[cst.CSTNode, str] = {}
    imports: dict[cst.CSTNode, str] = {}
    for node, assignments in known.items():
        module = get_absolute_module_for_import(None, node) or ""
        if module.split(".")[0] != "torch" or any(len(scope[one.name]) > 1 for one in assignments):
            continue
        imports[node] = module
        for one in assignments:
            full = one.get_qualified_names_for(one.name)
            for access in one.references:
                use: cst.BaseExpression = access.node
                while isinstance(use, cst.Attribute):
                    use = use.value
                names[use] = next(iter(full)).name
    changed = tree.visit(_Qualifying(names, imports))
    assert isinstance(changed, cst.Module)
    compile(changed.code, "qualified", "exec")
    return changed.code


def reordered(text: str) -> str:
    """Turn round the order of functions that stand one after the other, and of imports."""
    tree = cst.parse_module(text)
    body: list[cst.SimpleStatementLine | cst.BaseCompoundStatement] = []
    for movable, group in groupby(tree.body, _movable):
        together = list(group)
        body += reversed(together) if movable else together
    return tree.with_changes(body=body).code


def _movable(node: cst.BaseStatement) -> str:
    """Return of which kind a statement is that may change places with a neighbour of its kind, "" where it may not."""
    if isinstance(node, cst.FunctionDef) and not node.decorators:
        return "function"
    parts = node.body if isinstance(node, cst.SimpleStatementLine) else ()
    if not parts or not all(isinstance(part, (cst.Import, cst.ImportFrom)) for part in parts):
        return ""
    return "" if any(isinstance(one, cst.ImportFrom) and _is_future(one) for one in parts) else "import"


def _is_future(node: cst.ImportFrom) -> bool:
    return isinstance(node.module, cst.Name) and node.module.value == "__future__"


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


# ---- the changes


class Change:
    """Other words, another layout or order, and what makes two outcomes comparable."""

    def __init__(self, file: Callable[[str], str]) -> None:
        self._file = file

    def files(self, texts: Texts) -> dict[str, str]:
        """Return a project's files, changed."""
        python = {name: text for name, text in texts.items() if name.endswith(".py")}
        return {**texts, **self._changed(python)}

    def _changed(self, python: Texts) -> dict[str, str]:
        return {name: self._file(text) for name, text in python.items()}

    def code(self, text: str) -> str:
        """Return what is written, as it is compared."""
        return text

    def told(self, message: str) -> str:
        """Return a message, as it is compared."""
        return message


class Renamed(Change):
    """Other names of locals and parameters."""

    def __init__(self) -> None:
        self._renaming = Renaming()

    def _changed(self, python: Texts) -> dict[str, str]:
        return self._renaming(python)

    def code(self, text: str) -> str:
        return self._renaming.back(text)

    def told(self, message: str) -> str:
        return self.code(message)


class Unwrapped(Change):
    """A line for each statement, with no more blanks and parentheses than it needs."""

    def __init__(self) -> None:
        super().__init__(unwrapped)

    def told(self, message: str) -> str:
        return re.sub(r"[\s()]", "", message)


class Qualified(Change):
    """Modules imported, not names."""

    def __init__(self) -> None:
        super().__init__(qualified)

    def code(self, text: str) -> str:
        return qualified(text)

    def told(self, message: str) -> str:
        return " ".join(message.split()[:2])  # the rest may quote code


class Reordered(Change):
    """Another order of functions and imports."""

    def __init__(self) -> None:
        super().__init__(reordered)

    def code(self, text: str) -> str:
        tree = ast.parse(text)
        tree.body.sort(key=_order)
        return ast.unparse(tree)


def _order(node: ast.stmt) -> tuple[int, str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return 0, ast.unparse(node)
    return (1, node.name) if isinstance(node, ast.FunctionDef) else (2, "")


CHANGES: Mapping[str, Callable[[], Change]] = {
    "dressed": lambda: Change(dressed),
    "bare": lambda: Change(uncommented),
    "wrapped": lambda: Change(wrapped),
    "unwrapped": Unwrapped,
    "renamed": Renamed,
    "qualified": Qualified,
    "reordered": Reordered,
}


# ---- what is said


def _place(text: str, line: int) -> str:
    """Return the function or class at a line, and how many statements of it begin up to there."""
    tree = _Bare().visit(ast.parse(text))
    tops = [top for top in tree.body if top.lineno <= line]
    if not tops or isinstance(tops[-1], (ast.Import, ast.ImportFrom)):
        return "import"
    known = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    name = getattr(tops[-1], "name", f"<{sum(not isinstance(top, known) for top in tops)}>")
    return f"{name}:{sum(isinstance(node, ast.stmt) and node.lineno <= line for node in ast.walk(tops[-1]))}"


def _told(problem: Problem, texts: Texts) -> str:
    text = texts.get(problem.file)
    place = _place(text, problem.line) if text else problem.line
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


def applied(texts: Texts, entry: str, change: Change) -> list[str]:
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
        said = [change.told(_told(problem, texts)).replace(made, "") for problem in problems]
        said.sort()
        for file in files:
            name = str(file.path.relative_to(folder))
            if name in texts:
                tree = _Bare().visit(ast.parse(change.code(file.after.decode())))
                said += [f"{name}: {line}" for line in ast.unparse(tree).splitlines()]
            elif not name.startswith("pai_distributed"):
                said += [f"{name}: {line}" for line in file.after.decode().splitlines()]
    return said


_CHECKER = Checker()


def found(text: str, change: Change) -> list[str]:
    """Return what a check finds in a file."""
    outcome = _CHECKER.check(Path("/project/train.py"), "train.py", text.encode(), Settings())
    problems = [Problem("train.py", one.line, one.column, one.code, one.message) for one in outcome.findings]
    problems += [outcome.problem] if outcome.problem else []
    return sorted(change.told(_told(problem, {"train.py": text})) for problem in problems)


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


def difference(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return what of two lists of lines is not the same."""
    return [line for line in difflib.ndiff(before, after) if line[0] in "-+"]


def apply_differs(texts: Texts, entry: str, name: str) -> list[str]:
    """Return what an apply says and makes otherwise of a changed project."""
    change = CHANGES[name]()
    other = change.files(texts)
    return difference(applied(texts, entry, change), applied(other, entry, change))


def check_differs(text: str, name: str) -> list[str]:
    """Return what a check finds otherwise in a changed file."""
    change = CHANGES[name]()
    other = change.files({"train.py": text})["train.py"]
    return difference(found(text, change), found(other, change))


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
