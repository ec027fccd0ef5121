"""Find the validation score: which expression it is, whether higher is better, and where all ranks can hand it over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Binding, Index, Statement, dotted, meeting
from retrofit.survey.sites import EpochLoop, Scheduler, Score

_BEST = re.compile(r"best|lowest|highest|minimum|maximum|(^|_)(min|max|top|record)(_|$)", re.IGNORECASE)
_HIGHER = re.compile(
    r"acc|iou|f1|auc|dice|psnr|ssim|bleu|rouge|meteor|cider|recall|precision|correct|reward|r2|kappa|hit|ndcg"
    r"|(^|_|\b)m?ap(\d|_|\b|$)|top\d|score",
    re.IGNORECASE,
)
_LOWER = re.compile(
    r"loss|err|mse|mae|ppl|perplex|nll|bpc|bpd|(^|_|\b)(w|c)er(_|\b|$)|fid|epe|cost|dist", re.IGNORECASE
)
_VALIDATES = re.compile(r"val|eval|test", re.IGNORECASE)
_RANK_CHECK = re.compile(
    r"\b(local_|global_|world_)?rank\b|is_main|is_master|main_process|master_process|is_primary|get_rank|is_rank_?(zero|0)"
    r"|\bmaster\b|is_first|gpu == 0",
    re.IGNORECASE,
)
_COMPARE = {cst.GreaterThan: 1, cst.GreaterThanEqual: 1, cst.LessThan: -1, cst.LessThanEqual: -1}


@dataclass
class _Candidate:
    node: cst.BaseExpression
    direction: str
    evidence: str


def direction_of(name: str) -> str:
    """Return "max" or "min" as a metric's name tells, "" where it does not."""
    higher, lower = _HIGHER.search(name), _LOWER.search(name)
    if bool(higher) == bool(lower):
        return ""
    return "max" if higher else "min"


def find_scores(
    index: Index,
    flow: Flow,
    loops: list[EpochLoop],
    schedulers: list[Scheduler],
    metric: str = "",
    mode: str = "",
) -> list[Score]:
    """Return the candidates for the validation score, one where the script is clear about it.

    Args:
        loops: the epoch loops.
        schedulers: the schedulers; ReduceLROnPlateau is stepped with the score.
        metric: the user's own expression for it, "" to find it.
        mode: the user's word on the direction, "" to find it.
    """
    scores: dict[str, Score] = {}
    for loop in loops:
        tracked = list(_tracked(index, loop))
        plateau = list(_plateau(index, loop, schedulers))
        candidates = tracked or plateau or list(_named(index, flow, loop))
        if metric:
            candidates = _given(index, loop, metric, [*tracked, *plateau])
        for candidate in candidates:
            score = _site(index, loop, candidate)
            if score is None:
                continue
            known = scores.setdefault(score.expression, score)
            if known.direction != score.direction:
                known.direction = known.direction or score.direction
    found = list(scores.values())
    if len(found) > 1:
        validation = [s for s in found if _VALIDATES.search(s.expression)]
        found = validation if len(validation) == 1 else found
    for score in found:
        if mode:
            score.direction, score.evidence = mode, "--mode"
    return found


def _in_loop(index: Index, loop: EpochLoop, node: cst.CSTNode) -> bool:
    statement = index.statement(node)
    return statement.scope is loop.scope and loop.statement in statement.ancestors


def _tracked(index: Index, loop: EpochLoop) -> Iterator[_Candidate]:
    """Expressions that the script compares with its best so far."""
    bound_in_loop = {b.target: b for b in index.bindings if _in_loop(index, loop, b.statement.node)}
    for comparison in index.comparisons:
        if len(comparison.comparisons) != 1 or not _in_loop(index, loop, comparison):
            continue
        right = comparison.comparisons[0]
        sign = _COMPARE.get(type(right.operator))
        if sign is None:
            continue
        for best, score, better in (
            (right.comparator, comparison.left, sign),
            (comparison.left, right.comparator, -sign),
        ):
            if not _is_best(index, best, score, bound_in_loop):
                continue
            if _improves_in_else(index, comparison, dotted(best) or index.source.code(best)):
                better = -better
            line = index.source.position(comparison)[0]
            yield _Candidate(score, "max" if better > 0 else "min", f"line {line}: {index.source.code(comparison)}")
            break
    for binding in bound_in_loop.values():
        call = binding.value
        if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value in ("max", "min")):
            continue
        others = [arg.value for arg in call.args if index.source.code(arg.value) != binding.target]
        if len(call.args) == 2 and len(others) == 1:
            line = index.source.position(call)[0]
            yield _Candidate(others[0], call.func.value, f"line {line}: {binding.target} = {index.source.code(call)}")


def _is_best(index: Index, best: cst.BaseExpression, score: cst.BaseExpression, bound: Mapping[str, Binding]) -> bool:
    name = dotted(best) or (index.source.code(best) if isinstance(best, cst.Subscript) else "")
    other = dotted(score) or index.source.code(score)
    if (
        not name
        or isinstance(score, (cst.Integer, cst.Float, cst.UnaryOperation))
        or _BEST.search(other.split(".")[-1])
    ):
        return False
    if _BEST.search(name):
        return not re.fullmatch(r"(args|cfg|config|opt|hparams)\..*", name)
    value = bound[name].value if name in bound else None
    return value is not None and index.source.code(value) == other


def _improves_in_else(index: Index, comparison: cst.Comparison, best: str) -> bool:
    """Whether the best is taken in the branch in which the comparison does not hold."""
    node = index.statement(comparison).node
    if not isinstance(node, cst.If):
        return False
    inside = _code_within(index, comparison, node.test)
    if not inside:
        return False
    assigns = re.compile(rf"(^|\n)\s*{re.escape(best)}\s*=[^=]")
    in_body = assigns.search("\n" + index.source.code(node.body)) is not None
    in_else = node.orelse is not None and assigns.search("\n" + index.source.code(node.orelse)) is not None
    negated = any(
        isinstance(a, cst.UnaryOperation) and isinstance(a.operator, cst.Not) for a in index.ancestors(comparison)
    )
    return negated != (in_else and not in_body)


def _code_within(index: Index, inner: cst.CSTNode, outer: cst.CSTNode) -> bool:
    first, last = index.source.span(inner)
    start, end = index.source.span(outer)
    return start <= first and last <= end


def _plateau(index: Index, loop: EpochLoop, schedulers: list[Scheduler]) -> Iterator[_Candidate]:
    """What the script gives to ReduceLROnPlateau."""
    for scheduler in schedulers:
        if scheduler.kind != "ReduceLROnPlateau":
            continue
        for step in scheduler.steps:
            call = step.node
            if isinstance(call, cst.Call) and call.args and _in_loop(index, loop, call):
                mode = dict(scheduler.bound).get("mode", "'min'").strip("'\"")
                yield _Candidate(
                    call.args[0].value,
                    mode if mode in ("min", "max") else "",
                    f"line {step.line}: {step.code}",
                )


def _named(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[_Candidate]:
    """What functions that validate return, as far as its name tells that it is a score."""
    for binding in index.bindings:
        call = binding.value
        if not isinstance(call, cst.Call) or not _in_loop(index, loop, binding.statement.node):
            continue
        name = (dotted(call.func) or "").rpartition(".")[2]
        function = flow.called(call)
        validates = _VALIDATES.search(name) or (function is not None and _looks_like_validation(index, function.node))
        if not validates or "." in binding.target or binding.target == "_":
            continue
        if direction_of(binding.target) or binding.item is None:
            line = index.source.position(call)[0]
            direction = direction_of(binding.target) or direction_of(name)
            yield _Candidate(
                _target_node(index, binding.statement, binding.target), direction, f"line {line}: its name"
            )


def _looks_like_validation(index: Index, function: cst.CSTNode) -> bool:
    code = index.source.code(function)
    return re.search(r"no_grad\(|inference_mode\(", code) is not None and ".backward(" not in code


def _target_node(index: Index, statement: Statement, target: str) -> cst.BaseExpression:
    for node, parent in index.parents.items():
        if isinstance(node, cst.Name) and node.value == target and isinstance(parent, (cst.AssignTarget, cst.Element)):
            if index.statement(node) is not statement:
                continue
            return node
    raise LookupError(target)


def _given(index: Index, loop: EpochLoop, metric: str, known: list[_Candidate]) -> list[_Candidate]:
    """The user's own expression, with the direction that the script shows for it."""
    for candidate in known:
        if index.source.code(candidate.node) == metric:
            return [candidate]
    expression = cst.parse_expression(metric)
    return [_Candidate(expression, direction_of(metric), "--metric")]


def _site(index: Index, loop: EpochLoop, candidate: _Candidate) -> Score | None:
    own = candidate.node in index.parents
    expression = index.source.code(candidate.node) if own else cst.Module(body=[]).code_for_node(candidate.node)
    root = candidate.node
    while isinstance(root, (cst.Attribute, cst.Subscript, cst.Call)):
        root = root.func if isinstance(root, cst.Call) else root.value
    name = root.value if isinstance(root, cst.Name) else ""
    makers = [
        b.statement
        for b in index.bindings
        if b.target in (name, expression)
        and _in_loop(index, loop, b.statement.node)
        and not isinstance(b.value, (cst.Integer, cst.Float, cst.Name))
    ]
    if not makers and own:
        makers = [index.statement(candidate.node)]
    here = meeting(makers) if makers else None
    if here is None:
        last = index.statements_in(loop.node.body)[-1] if isinstance(loop.node, cst.For) else None
        if last is None:
            return None
        here = last
    place, guard = _way_in(index, loop, here)
    score = Score(
        node=candidate.node if own else place.node,
        index=index,
        expression=expression,
        direction=candidate.direction,
        evidence=candidate.evidence,
        anchors={"report": _last_before_leaving(place).node},
    )
    if guard is not None:
        score.ranks = "first"
        score.anchors["guard"] = guard.node
    return score


def _way_in(index: Index, loop: EpochLoop, made: Statement) -> tuple[Statement, Statement | None]:
    """Go from the loop's body towards the place where the score is made, as far as every rank goes.

    Returns:
        a statement of the block in which all ranks can hand the score over, and the rank check around its making.
    """
    path = made.path
    inner = path[path.index(loop.statement) + 1 :]
    for statement in inner:
        node = statement.node
        if not isinstance(node, cst.If) or statement is made:
            return statement, None
        if _RANK_CHECK.search(index.source.code(node.test)):
            return statement, statement
    return inner[-1], None


def _last_before_leaving(place: Statement) -> Statement:
    """Return the last statement of the block that does not end it."""
    last = place.siblings[-1]
    node = last.node
    if isinstance(node, cst.SimpleStatementLine) and isinstance(
        node.body[0], (cst.Return, cst.Continue, cst.Break, cst.Raise)
    ):
        return last.siblings[last.index - 1] if last.index else last
    return last
