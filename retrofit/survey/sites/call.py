"""Calls, for rules that ask for one by name."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from retrofit.survey.nodes import argument, dotted, is_choice
from retrofit.survey.sites.base import Site


@dataclass(eq=False, kw_only=True)
class CallSite(Site):
    """Any call, for rules that ask for one by name; its anchors are "call" and "function"."""

    @property
    def qualified(self) -> str:
        """The called function's full path, import aliases resolved."""
        assert isinstance(self.node, cst.Call)
        return self.index.qualified(self.node.func)

    @property
    def called(self) -> str:
        """The called function's own name."""
        return self.qualified.rpartition(".")[2]

    @property
    def target(self) -> str:
        """The name to which the call's value is assigned, "" where it is not assigned plainly."""
        return self.index.target_of(self.node)

    @property
    def conditional(self) -> bool:
        """Whether it runs only under a condition other than being the main program."""
        return any(is_choice(s.node) for s in self.statement.ancestors)

    @property
    def condition(self) -> str:
        """What holds where it runs, by the innermost `if` around it; "" where there is none."""
        around = list(self.index.ancestors(self.node))
        for node in around:
            if isinstance(node, cst.If):
                test = self.index.source.code(node.test)
                return test if node.body in around else f"not ({test})"
        return ""

    def argument(self, name: str, position: int | None = None) -> str | None:
        """Return the code of an argument by keyword or position, None where it is not given."""
        node = self.argument_node(name, position)
        return None if node is None else self.index.source.code(node)

    def argument_node(self, name: str, position: int | None = None) -> cst.BaseExpression | None:
        """Return an argument's expression by keyword or position, None where it is not given."""
        assert isinstance(self.node, cst.Call)
        return argument(self.node, name, position)

    def literal(self, name: str, position: int | None = None) -> str | None:
        """Return a string argument's value, None where it is not given or no plain string, nor a name for just one."""
        node = self.argument_node(name, position)
        given = dotted(node)
        if given is not None and given.startswith("self."):
            bound = [one for one in self.index.bindings if one.target == given]
        elif given is not None:
            scopes = (self.scope, *(scope for scope in self.scope.around if scope.kind != "class"))
            scope = next((scope for scope in scopes if given.partition(".")[0] in scope.names), self.scope)
            owner, known = self.index.imported(given, scope) or (scope, given)
            bound = self.index.bound([known], owner) if known not in owner.parameters else []
        if given is not None:
            node = bound[0].value if len(bound) == 1 and bound[0].item is None else None
        value = node.evaluated_value if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)) else None
        return value if isinstance(value, str) else None


@dataclass(eq=False, kw_only=True)
class Spawn(CallSite):
    """A call that starts the processes of a training from one.

    Attributes:
        usual: whether it surely runs on a machine with several GPUs, where no option says otherwise.
        needed: whether the model is wrapped only where the condition holds under which it runs.
        number: the code that says how many it starts, "" where it does not.
        avoided: where one process runs the same instead, and leaves before it.
    """

    usual: bool = False
    needed: bool = False
    number: str = ""
    avoided: str = ""


@dataclass(eq=False, kw_only=True)
class FailingCall(CallSite):
    """A call that Python refuses for its arguments, of a function that no other call runs.

    Attributes:
        function: the function's name.
        why: what it gives that the function does not take, or does not give.
    """

    function: str
    why: str
