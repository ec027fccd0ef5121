"""What the sites of rank-dependent code ask of a file: where ranks part, and how a fix names them."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.sites import Call
from retrofit.survey.nodes import is_choice, names_in
from retrofit.survey.scopes import Scope
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.words import OF_RANK, speak

#: How many values of names are followed.
_DEPTH = 5


def told_by_rank(file: TrainingFile, node: cst.CSTNode) -> bool:
    """Whether the conditions that hold a node back from some ranks speak of a rank in so many words.

    `ranks` takes names such as `save` or `first` for rank 0's as well, which is no ground for an error.
    """
    for statement in file.flow.leading(file.index.statement(node)):
        for part in (statement, *statement.around):
            tests = [one.node.test for one in (part, *part.preceding) if isinstance(one.node, cst.If)]
            if any(speak(made_of(file, test, part.scope), OF_RANK) for test in tests):
                return True
        decorators = statement.scope.node.decorators if isinstance(statement.scope.node, cst.FunctionDef) else ()
        if any(speak(file.source.words(one.decorator), OF_RANK) for one in decorators):
            return True
    return False


def alone(file: TrainingFile) -> bool:
    """Whether the script may also run without a process group, as one process."""
    made = [*file.groups, *(wrapper.node for wrapper in file.wrappers if wrapper.kind == "ddp")]
    return not file.groups or any(conditional(file, node) for node in made)


def bare(file: TrainingFile, wrapper: Wrapper, model: str) -> str:
    """Return the code of a model without its wrapper, where it may have none as well."""
    maybe = conditional(file, wrapper.node) or (wrapper.kind == "ddp" and alone(file))
    return f"getattr({model}, 'module', {model})" if maybe else f"{model}.module"


def conditional(file: TrainingFile, node: cst.CSTNode) -> bool:
    """Whether a node runs only under a condition other than being the main program, as far as its function shows."""
    return file.index.inside(node, cst.IfExp) or any(
        is_choice(part.node) for part in file.index.statement(node).ancestors
    )


def made_of(file: TrainingFile, node: cst.CSTNode, scope: Scope) -> frozenset[str]:
    """Return the words of an expression and of all that the names in it are given."""
    found: set[str] = set()
    seen: set[cst.CSTNode] = set()
    waiting = [(node, scope, 0)]
    while waiting:
        here, where, depth = waiting.pop()
        if here in seen or depth > _DEPTH:
            continue
        seen.add(here)
        found |= file.source.words(here)
        for name in names_in(here):
            for source in file.flow.sources(file.flow.variable(name, where)):
                if source.value is not None:
                    waiting.append((source.value, source.scope, depth + 1))
    return frozenset(found)


@dataclass(eq=False, kw_only=True)
class RankCall(Call):
    """A call of which it matters which ranks run it."""

    @property
    def inline(self) -> bool:
        """Whether its own statement may leave it out on some ranks: `rank == 0 and save()`."""
        return self.index.inside(self.node, cst.IfExp, cst.BooleanOperation, cst.Lambda)

    @property
    def plain(self) -> bool:
        """Whether its statement is this call and nothing else."""
        node = self.statement.node
        if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
            return False
        return isinstance(node.body[0], cst.Expr) and node.body[0].value is self.node

    @property
    def group_import(self) -> bool:
        """Whether a fix has to import `torch.distributed` first."""
        return not self.habits.imports("torch.distributed")

    @property
    def group_named(self) -> bool:
        """Whether `torch.distributed` has a name here, or can be given `dist`."""
        return not self.group_import or "dist" not in self.index.bound_names | self.file.scope.names

    @property
    def alone(self) -> bool:
        """Whether the script may also run without a process group."""
        return alone(self.habits)
