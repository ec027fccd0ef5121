"""One walk over each file's tree: statements, scopes, calls, assignments and import aliases, with their parents."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import libcst as cst

from retrofit.knowledge import Knowledge
from retrofit.knowledge.kinds import Counts, GoesOver
from retrofit.source import Source, Sources
from retrofit.survey.nodes import (
    SKIP,
    children,
    dotted,
    guards_main,
    last_name,
    leaves,
    method_name,
    never_runs,
    receiver,
    skipping,
)
from retrofit.survey.scopes import Binding, File, Scope, Statement

#: What is written of types, which is not evaluated or makes nothing.
_TYPES = (cst.Annotation, cst.TypeParameters)
#: Kinds of nodes of which more is noted than where they stand.
_NOTED = frozenset(
    {
        cst.AnnAssign, cst.AsName, cst.Assign, cst.Attribute, cst.AugAssign, cst.Call, cst.Comparison, cst.Global,
        cst.Import, cst.ImportFrom, cst.IndentedBlock, cst.NamedExpr, cst.Nonlocal, cst.Return,
        cst.SimpleStatementSuite,
    }
)  # fmt: skip


class Gathered:
    """What the files of a project hold, gathered in one walk over each.

    Args:
        sources: the files, by the full names of their modules; the entry script, by "", comes first.
        module: the entry script's own full name, "" where it need not have one.
        passed_over: the functions of the entry script whose bodies are passed over.
        knowledge: what is known of libraries.
    """

    def __init__(
        self, sources: Mapping[str, Source], module: str, passed_over: Collection[str], knowledge: Knowledge
    ) -> None:
        self.knowledge = knowledge
        self.module = module
        self._passed_over = passed_over
        files = list(sources.values())
        self.source: Source | Sources = Sources(files) if len(files) > 1 else files[0]
        self.statements: list[Statement] = []
        self.calls: list[cst.Call] = []
        self.bindings: list[Binding] = []
        self.items: list[Binding] = []
        self.appended: list[Binding] = []
        self.comparisons: list[cst.Comparison] = []
        self.attributes: list[cst.Attribute] = []
        self.returns: list[tuple[cst.Return, Scope]] = []
        self.loops: list[Statement] = []
        self.skipped: list[cst.CSTNode] = []
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self._statement_of: dict[cst.CSTNode, Statement] = {}
        self._scope_of: dict[cst.CSTNode, Scope] = {}
        self.files = [self._file(name, one) for name, one in sources.items()]

    def _file(self, name: str, source: Source) -> File:
        module = source.module
        self._skips = SKIP.search(source.text) is not None
        scope = self._scope_of[module] = Scope("module", "", None, module)
        file = scope.file = File(source, name, scope)
        full = name or self.module
        file.package = full if name and source.path.name == "__init__.py" else full.rpartition(".")[0]
        for node in module.body:
            self.parents[node] = module
        file.body = self._block(module.body, scope, None)
        return file

    def file_of(self, scope: Scope) -> File:
        """Return the file that ``scope`` is in."""
        file = scope.module.file
        assert file is not None
        return file

    def _block(self, body: object, scope: Scope, parent: Statement | None, crowded: bool = False) -> list[Statement]:
        siblings: list[Statement] = []
        assert isinstance(body, (list, tuple))
        left = False
        for node in body:
            statement = Statement(node, scope, parent, siblings, len(siblings), len(self.statements), crowded)
            siblings.append(statement)
            self._statement_of[node] = statement
            if self._is_skipped(node):
                for child in children(node):
                    self._pass_over(child, node, statement)
                continue
            if not left:
                self.statements.append(statement)
                self._enter(node, statement)
                statement.last = len(self.statements) - 1
            left = left or leaves(node)
        return siblings

    def _enter(self, node: cst.CSTNode, statement: Statement) -> None:
        if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            statement.crowded = isinstance(node, cst.SimpleStatementSuite) or len(node.body) > 1
            self._walk_children(node, statement)
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self._define(node, statement)
        else:
            if isinstance(node, (cst.For, cst.While)):
                self.loops.append(statement)
            if isinstance(node, cst.For):
                self._bind(node.target, None, statement)
            if not self._never_runs(node, statement):
                self._walk_children(node, statement)

    def _is_skipped(self, node: cst.CSTNode) -> bool:
        skipped = self._skips and skipping(node) is not None
        self.skipped += [node] if skipped else []
        return skipped

    def _never_runs(self, node: cst.CSTNode, statement: Statement) -> bool:
        """Whether a statement is the `if __name__ == "__main__"` of a module that is only imported."""
        alone = isinstance(node, cst.If) and node.orelse is None and statement.scope.parent is None
        return alone and self.file_of(statement.scope).name != "" and guards_main(node)

    def _define(self, node: cst.FunctionDef | cst.ClassDef, statement: Statement) -> None:
        outer = statement.scope
        outer.names.add(node.name.value)
        outer.assigned.add(node.name.value)
        function = isinstance(node, cst.FunctionDef)
        scope = Scope("function" if function else "class", node.name.value, outer, node)
        scope.earlier = outer.inner.get(scope.name)
        outer.inner[scope.name] = scope
        if outer.parent is None:
            self.file_of(outer).aliases.pop(scope.name, None)  # its own definition takes the place of an import
        self._scope_of[node] = scope
        for decorator in node.decorators:
            self._walk(decorator, node, statement)
        if isinstance(node, cst.FunctionDef):
            params = node.params
            star = [params.star_arg] if isinstance(params.star_arg, cst.Param) else []
            for param in (*params.posonly_params, *params.params, *star, *params.kwonly_params):
                scope.parameters.append(param.name.value)
                if param.default is not None:
                    self._walk(param.default, node, statement)
            scope.names.update(scope.parameters)
            scope.assigned.update(scope.parameters)
        else:
            for argument in (*node.bases, *node.keywords):
                self._walk(argument, node, statement)
        self.parents[node.body] = node
        given = outer.parent is None and scope.name in self._passed_over and self.file_of(outer).name == ""
        if given or self._is_skipped(node.body):
            return
        self._suite(node.body, scope, statement)

    def _suite(self, suite: cst.BaseSuite, scope: Scope, parent: Statement) -> None:
        if isinstance(suite, cst.SimpleStatementSuite):
            self.parents[suite] = parent.node
            self._block([suite], scope, parent, crowded=True)
        else:
            for line in suite.body:
                self.parents[line] = suite
            self._block(suite.body, scope, parent)

    def _walk_children(self, node: cst.CSTNode, statement: Statement) -> None:
        ruled_out = never_runs(node) if node.__class__ is cst.If else None
        for child in children(node):
            if child is ruled_out:
                self._pass_over(child, node, statement)
            elif child.__class__ not in _TYPES:
                self._walk(child, node, statement)

    def _pass_over(self, node: cst.CSTNode, parent: cst.CSTNode, statement: Statement) -> None:
        """Note of code that never runs only where it stands."""
        self.parents[node] = parent
        if not isinstance(node, cst.BaseSuite):
            for child in children(node):
                self._pass_over(child, node, statement)
            return
        siblings: list[Statement] = []
        for line in node.body if isinstance(node, cst.IndentedBlock) else [node]:
            one = Statement(line, statement.scope, statement, siblings, len(siblings), len(self.statements))
            siblings.append(one)
            self._statement_of[line] = one
            for child in children(line):
                self._pass_over(child, line, one)
            if line is not node:
                self.parents[line] = node

    def _walk(self, node: cst.CSTNode, parent: cst.CSTNode, statement: Statement) -> None:
        self.parents[node] = parent
        self._statement_of[node] = statement
        if node.__class__ not in _NOTED:
            self._walk_children(node, statement)
        elif isinstance(node, cst.BaseSuite):
            if self._is_skipped(node):
                self._pass_over(node, parent, statement)
            else:
                self._suite(node, statement.scope, statement)
        elif isinstance(node, (cst.Import, cst.ImportFrom)):
            self._import(node, statement)
        elif isinstance(node, (cst.Global, cst.Nonlocal)):
            statement.scope.outer.update(item.name.value for item in node.names)
        else:
            self._note(node, statement)
            self._walk_children(node, statement)

    def _note(self, node: cst.CSTNode, statement: Statement) -> None:
        if isinstance(node, cst.Call):
            self.calls.append(node)
            self._append(node, statement)
        elif isinstance(node, cst.Attribute):
            self.attributes.append(node)
        elif isinstance(node, cst.Assign):
            for target in node.targets:
                self._bind(target.target, node.value, statement)
        elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)):
            if node.value is not None:
                self._bind(node.target, node.value, statement)
        elif isinstance(node, cst.AugAssign):
            self._bind(node.target, None, statement)
        elif isinstance(node, cst.AsName):
            self._bind(node.name, self._entered(self.parents[node]), statement)
        elif isinstance(node, cst.Comparison):
            self.comparisons.append(node)
        elif isinstance(node, cst.Return):
            self.returns.append((node, statement.scope))

    def _entered(self, item: cst.CSTNode) -> cst.BaseExpression | None:
        """Return what a `with` gives a name, where that is a progress bar, which gives itself; None for any other."""
        made = item.item if isinstance(item, cst.WithItem) else None
        bars = {*self.knowledge.last_names(GoesOver), *self.knowledge.last_names(Counts)}
        return made if isinstance(made, cst.Call) and last_name(made.func) in bars else None

    def _bind(self, target: cst.CSTNode, value: cst.BaseExpression | None, statement: Statement) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            values = value.elements if isinstance(value, (cst.Tuple, cst.List)) else None
            for number, element in enumerate(target.elements):
                if values is not None and len(values) == len(target.elements):
                    self._bind(element.value, values[number].value, statement)
                elif isinstance(element.value, (cst.Tuple, cst.List)):  # of which part of it, an item does not say
                    self._bind(element.value, None, statement)
                else:
                    self._bind_name(element.value, value, number, statement)
        else:
            self._bind_name(target, value, None, statement)

    def _bind_name(
        self, target: cst.CSTNode, value: cst.BaseExpression | None, item: int | None, statement: Statement
    ) -> None:
        name = dotted(target)
        if name is not None:
            self.bindings.append(Binding(name, value, item, statement))
            if "." not in name:
                scope = statement.scope.module if name in statement.scope.outer else statement.scope
                scope.names.add(name)
                scope.assigned.add(name)
        elif isinstance(target, cst.Subscript):
            held = target.value
            while isinstance(held, cst.Subscript):
                held = held.value
            if dotted(held) is not None:
                self.items.append(Binding(self.source.code(target), value, item, statement))

    def _append(self, call: cst.Call, statement: Statement) -> None:
        """Note what a list gets appended as a value of its last item."""
        held = receiver(call)
        if held is not None and method_name(call) == "append" and len(call.args) == 1:
            target = f"{self.source.code(held)}[-1]"
            self.appended.append(Binding(target, call.args[0].value, None, statement))

    def _import(self, node: cst.Import | cst.ImportFrom, statement: Statement) -> None:
        file = self.file_of(statement.scope)
        prefix = ""
        if isinstance(node, cst.ImportFrom):
            module = _absolute(file, len(node.relative), dotted(node.module) or "")
            prefix = module + "." if module else ""
            written = "." * len(node.relative) + (dotted(node.module) or "")
            file.imports.append((statement, module if file.name else written))
        if isinstance(node.names, cst.ImportStar):
            file.stars.append(prefix[:-1])
            return
        for alias in node.names:
            name = dotted(alias.name) or ""
            if isinstance(node, cst.Import):
                file.imports.append((statement, name))
            bound = alias.asname.name if alias.asname is not None else None
            known_as = bound.value if isinstance(bound, cst.Name) else name if prefix else name.partition(".")[0]
            full = known_as if not prefix and bound is None else prefix + name
            if full == known_as:
                file.aliases.setdefault(known_as, full)
            else:
                file.aliases[known_as] = full
            statement.scope.names.add(known_as)
            ways = statement.scope.imports.setdefault(known_as, [])
            if not any(isinstance(part.node, (cst.If, cst.Try)) for part in statement.path):
                ways.clear()  # what was imported before is hidden
            if full not in ways:
                ways.append(full)


def _absolute(file: File, dots: int, module: str) -> str:
    """Return the full name of a module that is imported relative to a file's package."""
    if not dots:
        return module
    if not file.name and not file.package:
        return "." * (dots if dots > 1 else 0) + module  # what stands beside the script needs no package
    package = file.package.split(".") if file.package else []
    return ".".join([*package[: len(package) + 1 - dots], *([module] if module else [])])
