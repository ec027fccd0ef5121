"""Find learning rates that are worked out for a planned length of training, and tell what they do past its end."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index, Scope, dotted
from retrofit.survey.loops import ARRAY, COUNTER, PLANNED, is_before_end, is_rest, resolved
from retrofit.survey.sites import RateEnd

#: What libraries call schedules whose rate is used up after the number of steps that they are given,
_RESTING = (
    "get_linear_schedule_with_warmup",
    "get_polynomial_decay_schedule_with_warmup",
    "get_cosine_with_hard_restarts_schedule_with_warmup",
    "WarmupLinearSchedule",
    "PolynomialLR",
)
#: those whose rate rises again then,
_RISING = ("get_cosine_schedule_with_warmup", "WarmupCosineSchedule", "LinearWarmupCosineAnnealingLR")
#: and the arguments by which an optimizer or a schedule chosen by name is told that number.
_STEPS = frozenset({"t_total", "total_steps", "num_training_steps", "num_train_steps", "num_epochs"})
_OPTIMIZER = re.compile(r"(Adam|SGD|LAMB|Lamb|Ranger|Optimizer)\w*$")

_RATE = re.compile(r"(\b|_)lr|lr(\b|_)|LR\b|learning_rate|sched|cosine|anneal|warmup", re.IGNORECASE)
_OTHER = re.compile(
    r"momentum|\btau|(^|_)(beta|alpha|sigma|noise|wd|decay_weight|teacher|ema)|diffusion", re.IGNORECASE
)
_HELD = re.compile(r"\b(min|clip|clamp|minimum)\(")


def find_rate_ends(index: Index, flow: Flow) -> list[RateEnd]:
    """Return the schedules that end with a planned number of steps or epochs: by name, by an optimizer, by hand."""
    found, files = [], set()
    inside: set[Scope] = set()
    for call in index.calls:
        name = (dotted(call.func) or "").rpartition(".")[2]
        steps = next((a.keyword.value for a in call.args if a.keyword and a.keyword.value in _STEPS), "")
        function = flow.called(call)
        if steps and _OPTIMIZER.search(name):
            found.append(RateEnd(node=call, index=index, name=name, steps=steps))
            files.add(index.file_of(function) if function is not None else None)
        elif name in (*_RESTING, *_RISING) or (name == "get_scheduler" and steps and function is None):
            kind = index.source.code(call.args[0].value).strip("'\"") if name == "get_scheduler" and call.args else name
            if "constant" in kind:
                continue
            unsure = name == "get_scheduler" and kind not in ("linear", "polynomial", "cosine")
            rises = name in _RISING or kind == "cosine"
            found.append(RateEnd(node=call, index=index, name=name, rises=rises, steps=steps if unsure else ""))
            inside.update([function, function.enclosing_class or function] if function is not None else [])
    for call in index.calls:
        name, scope = (dotted(call.func) or "").rpartition(".")[2], index.scope_of(call)
        if index.file(call) in files or not inside.isdisjoint({scope, *scope.around}):
            continue
        if name == "cos" and _rises(index, call):
            found.append(RateEnd(node=call, index=index, name="", rises=True))
        elif name in ("max", "maximum") and _rests(index, call):
            found.append(RateEnd(node=call, index=index, name=""))
    return found


def _rises(index: Index, cosine: cst.Call) -> bool:
    """Whether a cosine is a learning rate's half wave, `1 + cos(pi * step / steps)`, and nothing ends with it."""
    around = index.parents[cosine]
    while isinstance(around, cst.BinaryOperation) and isinstance(around.operator, cst.Multiply):
        around = index.parents[around]
    if not isinstance(around, cst.BinaryOperation) or not isinstance(around.operator, cst.Add):
        return False
    code = resolved(index, cosine)
    if not re.search(r"\bpi\b|3\.14", code) or not _moves(index, cosine, code) or not _of_rate(index, cosine):
        return False
    turns = re.findall(r"%\s*\(?([\w.]+)", code)  # a wave again and again, but of the planned length
    return not _HELD.search(code) and all(PLANNED.search(turn) for turn in turns) and not is_before_end(index, cosine)


def _moves(index: Index, node: cst.CSTNode, code: str) -> bool:
    """Whether an expression's resolved code has a counter in it, or what its function or lambda is called with."""
    functions = [one for one in index.ancestors(node) if isinstance(one, (cst.FunctionDef, cst.Lambda))][:1]
    given = [param.name.value for one in functions for param in one.params.params if param.name.value != "self"]
    return COUNTER.search(code) is not None or any(re.search(rf"(?<![.\w]){name}\b(?!\.)", code) for name in given)


def _rests(index: Index, call: cst.Call) -> bool:
    """Whether a call is `max(0, (steps - step) / steps)` of a learning rate."""
    values = [arg.value for arg in call.args]
    zeros = [value for value in values if isinstance(value, (cst.Integer, cst.Float)) and value.evaluated_value == 0]
    if len(values) != 2 or len(zeros) != 1 or not _of_rate(index, call):
        return False
    rest = _bare(values[0] if values[1] is zeros[0] else values[1])
    if is_rest(index, rest):
        return True
    if not isinstance(rest, cst.BinaryOperation) or not isinstance(rest.operator, cst.Divide):
        return False
    left = _bare(rest.left)
    if not isinstance(left, cst.BinaryOperation) or not isinstance(left.operator, cst.Subtract):
        return False
    whole, taken = index.source.code(left.left), index.source.code(left.right)
    return PLANNED.search(whole) is not None and COUNTER.search(taken) is not None


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return `x` for `float(x)`."""
    plain = isinstance(node, cst.Call) and dotted(node.func) in ("float", "int") and len(node.args) == 1
    return node.args[0].value if plain and isinstance(node, cst.Call) else node


def _of_rate(index: Index, node: cst.CSTNode) -> bool:
    """Whether the names around an expression are those of a learning rate of one step, not of a list of them all."""
    statement = index.statement(node)
    scopes = [statement.scope, *statement.scope.around][:2]
    names = [scope.name for scope in scopes if scope.parent is not None]
    head = index.source.code(statement.node).partition("=")[0]
    if any(_OTHER.search(text) for text in [*names, head]):
        return False
    for around in index.ancestors(node):
        if isinstance(around, (cst.ListComp, cst.GeneratorExp)):
            return False
        if around is statement.node:
            break
    if ARRAY.search(resolved(index, node)):
        return False
    code = index.source.code(statement.node)
    return any(_RATE.search(text) for text in [*names, code]) or PLANNED.search(index.source.code(node)) is not None
