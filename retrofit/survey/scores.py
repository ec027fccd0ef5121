"""Find the validation score: which expression it is, whether higher is better, and where all ranks can hand it over."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Binding, Index, Scope, Statement, dotted, meeting, names_in
from retrofit.survey.loops import VALIDATES, conjuncts
from retrofit.survey.ranks import condition
from retrofit.survey.sites import EpochLoop, KeptScore, Scheduler, Score

_BEST = re.compile(r"best|lowest|highest|(^|_)(min|max|top|record)_", re.IGNORECASE)
_HIGHER = re.compile(
    r"(?<![a-z])([a-z]*acc(uracy|uracies|s)?|[a-z]*iou|f1|[a-z]*auc|auroc|auprc?|dice|dsc|jaccard|psnr|[a-z]*ssim|bleu"
    r"|rouge|meteor|cider|recall|prec(ision)?|correct|rewards?|r2|kappa|hits?|ndcg|mrr|m?ap|top|scores?|pck|pesq|stoi|snr"
    r"|pearson|spearman|s?rocc|[spk]l?r?cc|mcc|corr)(?![a-z])",
    re.IGNORECASE,
)
_LOWER = re.compile(
    r"(?<![a-z])([a-z]*loss(es)?|err(or|ors|s)?|r?mse|s?mape|mae|mpjpe|ppl|perplexity|nll|bp[cd]|[wcedt]er|fid|epe|nme"
    r"|lpips|hausdorff|chamfer|costs?|dist(ance)?)(?![a-z])",
    re.IGNORECASE,
)
_NO_SCORE = re.compile(r"loader|dataset|sampler|transform|path|data|model|net|output|pred", re.IGNORECASE)
_NAMES = re.compile(r"(^|_)(names?|labels?|keys?|titles?)$", re.IGNORECASE)
_RANK_CHECK = re.compile(
    r"\b(local_|global_|world_)?rank\b|is_main|is_master|main_process|master_process|is_primary|get_rank|is_rank_?(zero|0)"
    r"|\bmaster\b|is_first|gpu == 0",
    re.IGNORECASE,
)
_NO_VALUE = re.compile(r"func|fn\b|types?\b|crit|loader|counts?\b|lists?\b", re.IGNORECASE)
_SEVERAL = re.compile(r"(metrics|measures|stats|statistics|results?|report|summary|dict)$", re.IGNORECASE)
_AVERAGED = re.compile(r"(^|_)(ema|swa)(_|\b)", re.IGNORECASE)
_STOPS = re.compile(r"early_?stop|stopper", re.IGNORECASE)
_COMPUTES = re.compile(r"(np|numpy|torch|math|statistics)\.\w+$")
_AVERAGES = ("avg", "mean", "average", "global_avg", "compute")
_VALIDATION_DATA = re.compile(r"(?<![A-Za-z])([Vv]al|[Tt]est|[Ee]val|[Dd]ev(?!ice))")
_MARGIN = (cst.Add, cst.Subtract, cst.Multiply)
_COMPARE = {cst.GreaterThan: 1, cst.GreaterThanEqual: 1, cst.LessThan: -1, cst.LessThanEqual: -1}


@dataclass(frozen=True)
class _Candidate:
    """A value that may be the score.

    Attributes:
        best: the root of what holds the best of it, "" where the script keeps none.
        saved: whether a checkpoint is saved by it.
        call: the loop's call of the function that keeps it, None where the loop itself has it.
        rest: what is to be taken out of what the function returns.
        made: the statement of the loop that makes it, where that is no assignment.
    """

    node: cst.BaseExpression
    direction: str
    evidence: str
    best: str = ""
    saved: bool = False
    call: cst.Call | None = None
    rest: str = ""
    made: Statement | None = None


@dataclass(frozen=True)
class _Way:
    """The way from a body through conditions to the place where the score is made.

    Attributes:
        guard: the outermost conditional statement around that place, None where there is none.
        block: a statement of the block in which the score is known.
        condition: the code of a condition on it, other than a rank check; "" for none.
        ranks: "first" where a rank check is on it, else "all".
        looped: whether it leads through a loop to a further condition.
    """

    guard: Statement | None
    block: Statement
    condition: str
    ranks: str
    looped: bool = False


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
        tracked = [c for c in _tracked(index, _code_of(index, loop)) if not _counts(index, loop, c.node)]
        tracked = [*_numbers(index, flow, tracked), *_better(index, flow, loop)]
        plateau = list(_plateau(index, loop, schedulers))
        trained = [one for one in plateau if _of_training(index, loop, one.node)]
        plateau = [one for one in plateau if one not in trained]
        if any(
            VALIDATES.search(index.qualified(c.func).rpartition(".")[2]) and _in_loop(index, loop, c)
            for c in index.calls
        ):
            trained = []  # what validation gives is asked for, rather than the loss of training taken
        kept, keepers = _kept(index, flow, loop)
        watched = list(_watched(index, loop))
        candidates = tracked or plateau or kept or watched or list(_named(index, flow, loop, keepers))
        candidates = candidates or list(_dropped(index, flow, loop, keepers)) or _inline(index, loop)
        candidates = candidates or list(_kept_by_training(index, flow, loop)) or trained
        if metric:
            own = _Candidate(cst.parse_expression(metric), direction_of(metric), "--metric")
            given = _given(index, metric, [*tracked, *plateau, *kept, *watched])
            candidates = given or [*_measured(index, flow, loop, metric), own][:1]
        for candidate in candidates:
            score = _site(index, flow, loop, candidate)
            if score is None:
                continue
            known = scores.setdefault(score.expression, score)
            if score.direction and known.direction and known.direction != score.direction:
                score.contradicted = known.contradicted = True
            known.direction = known.direction or score.direction
            known.saved = known.saved or score.saved
    for score in scores.values():
        score.direction = "" if score.contradicted else score.direction
    found = list(scores.values())
    found = [score for score in found if not _AVERAGED.search(score.expression)] or found
    for told in (_of_saved, _of_validation, _not_of_test):
        found = [score for score in found if told(score)] if sum(map(told, found)) == 1 else found
    for score in found:
        if mode:
            score.direction, score.evidence = mode, "--mode"
    return found


def _of_saved(score: Score) -> bool:
    return score.saved


def _of_validation(score: Score) -> bool:
    return any(VALIDATES.search(word) for word in re.findall(r"\w+", score.expression))


def _not_of_test(score: Score) -> bool:
    return re.search(r"(?<![A-Za-z])([Vv]al(id|idation)?|[Dd]ev)(?![a-z])", score.expression) is not None


def find_hints(index: Index, loops: list[EpochLoop]) -> list[tuple[str, str]]:
    """Return (name, place) of what is compared with the best so far elsewhere than in the epoch loop itself."""
    found: dict[str, str] = {}
    for comparison in index.comparisons:
        if len(comparison.comparisons) != 1 or any(_in_loop(index, loop, comparison) for loop in loops):
            continue
        left, right = comparison.left, comparison.comparisons[0].comparator
        for best, score in ((left, right), (right, left)):
            name = dotted(score)
            known = isinstance(best, (cst.Name, cst.Attribute, cst.Subscript)) and "best" in index.source.code(best)
            scope = index.scope_of(comparison)
            known = known and (any(loop.scope is scope for loop in loops) or not _searched(index, scope, _root(best)))
            if name and known and type(comparison.comparisons[0].operator) in _COMPARE:
                found.setdefault(name, index.place(comparison, loops[0].file if loops else None))
    return list(found.items())


def _searched(index: Index, function: Scope, best: str) -> bool:
    """Whether a function looks for the best of what it goes through itself, from a constant on: for a threshold."""
    values = [b.value for b in index.bindings if b.target == best and b.statement.scope is function]
    constants = (cst.Integer, cst.Float, cst.UnaryOperation)
    return not _outlives(function, best) and any(isinstance(value, constants) for value in values)


def find_measures(index: Index, flow: Flow, loops: list[EpochLoop]) -> list[tuple[str, str]]:
    """Return (expression, place) of what validation makes and the epoch loop does not take as a score, but can."""
    found: dict[str, str] = {}
    for loop in loops:
        known: dict[str, str] = {}
        functions = [
            function
            for function, calls in _validations(index, flow, loop).items()
            if _validates(index, function) and len(calls) == 1 and isinstance(index.parents[calls[0]], cst.Expr)
        ]
        for binding in index.bindings:
            scope, target = binding.statement.scope, re.escape(binding.target)
            if scope not in functions or not direction_of(target) or _NO_VALUE.search(target):
                continue
            meter = re.search(rf"\b{target}\.(avg|mean|global_avg)\b(?!\()", index.source.code(scope.node))
            if (
                binding.value is not None
                and not meter
                and (_is_object(binding.value) or _class_of(index, flow, binding.value))
            ):
                continue
            ratio = None if meter else _ratio_of(index, binding)
            parent = binding.statement.parent
            if ratio is not None:
                known.setdefault(index.source.code(ratio), index.place(ratio, loop.file))
            elif meter or (parent is not None and not isinstance(parent.node, (cst.For, cst.While))):
                name = meter[0] if meter else binding.target
                known.setdefault(name, index.place(binding.statement.node, loop.file))
        for part in index.items:
            if part.statement.scope in functions and direction_of(part.target):
                known.setdefault(part.target, index.place(part.statement.node, loop.file))
        for returned, scope in index.returns:
            name = dotted(returned.value) or ""
            if (
                scope in functions
                and name not in ("", "None", *known)
                and not any(k.startswith(f"{name}[") for k in known)
            ):
                known[name] = index.place(returned, loop.file)
        for name, place in known.items():
            handed = next(_measured(index, flow, loop, name), None)
            site = _site(index, flow, loop, handed) if handed is not None else None
            if site is not None and site.known:
                found.setdefault(name, place)
        for binding, call in _validated(index, flow, loop):
            if _items_of(index, flow, loop, binding, call) != []:
                continue
            items = [
                (key, item)
                for value in _returned_values(index, flow, call, binding.item)
                for key, item in _written_items(index, value)
                if direction_of(index.source.code(item)) or direction_of(key)
            ]
            for key, item in items:
                found.setdefault(f"{binding.target}[{key}]", index.place(item, loop.file))
            values = _returned_values(index, flow, call, binding.item)
            holder = _class_of(index, flow, _target_node(index, binding.statement, binding.target))
            if holder is not None or any(map(_is_object, values)):
                attributes: dict[str, cst.CSTNode] = {
                    b.target.replace("self", binding.target, 1): b.statement.node
                    for b in index.bindings
                    if b.target.startswith("self.") and b.statement.scope.parent is holder and direction_of(b.target)
                }
                for name, node in (attributes or {f"{binding.target}.ATTRIBUTE": call}).items():
                    found.setdefault(name, index.place(node, loop.file))
            elif not items:
                found.setdefault(f"{binding.target}[...]", index.place(call, loop.file))
        for name, average in _collected(index, loop):
            found.setdefault(name, index.place(average, loop.file))
    return list(found.items())


def _ratio_of(index: Index, binding: Binding) -> cst.BinaryOperation | None:
    """Return the `100 * correct / total` that a function makes of a count, None where it makes none."""
    ratios = [
        node
        for node in index.parents
        if isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Divide)
        and index.scope_of(node) is binding.statement.scope
        and binding.target in names_in(node.left, called=False)
    ]
    if not ratios:
        return None
    found: cst.BinaryOperation = ratios[0]
    while isinstance(outer := index.parents[found], cst.BinaryOperation):
        if not isinstance(outer.operator, (cst.Divide, cst.Multiply)):
            break
        found = outer
    return found


def _in_loop(index: Index, loop: EpochLoop, node: cst.CSTNode) -> bool:
    statement = index.statement(node)
    return statement.scope is loop.scope and loop.statement in statement.ancestors


def _code_of(index: Index, body: EpochLoop | Scope) -> Callable[[cst.CSTNode], bool]:
    """Return a test whether a node stands in the epoch loop, or in a function."""
    if isinstance(body, EpochLoop):
        return lambda node: _in_loop(index, body, node)
    return lambda node: index.scope_of(node) is body


def _tracked(
    index: Index, inside: Callable[[cst.CSTNode], bool], given: list[str] | None = None
) -> Iterator[_Candidate]:
    """Values of which the code inside keeps the best so far: `if acc > best: best = acc`, `best = max(acc, best)`.

    Args:
        given: names that have a value there besides those that it binds.
    """
    bindings = [b for b in (*index.bindings, *index.items, *index.appended) if inside(b.statement.node)]
    bound = {b.target.partition(".")[0].partition("[")[0] for b in bindings}
    bound.update(given or [], (name for scope in index.scopes for name in scope.outer))

    def is_score(node: cst.BaseExpression) -> bool:
        known = _root(node) in bound or isinstance(_bare(node), cst.Attribute)
        if not known or _BEST.search(index.source.code(node).rpartition(".")[2]):
            return False
        values = [b.value for b in bindings if b.target == index.source.code(_bare(node)) and b.value is not None]
        return not any(_by_turn(index, inside, value) or _is_size(index, value) for value in [node, *values])

    found = False
    for binding in bindings:
        for score, direction in _kept_best(index, binding):
            if is_score(score) and not _by_turn(index, inside, cst.parse_expression(binding.target), binding.statement):
                found = True
                code = index.source.code(binding.statement.node)
                best = re.split(r"\W", binding.target)[0]
                saved = _saved_by(index, inside, score, binding.target)
                yield _Candidate(score, direction, f"{index.place(score)}: {code}", best, saved)
    for comparison in index.comparisons:
        if len(comparison.comparisons) != 1 or not inside(comparison):
            continue
        right = comparison.comparisons[0]
        sign = _COMPARE.get(type(right.operator))
        if isinstance(right.operator, cst.Equal):
            sign = _equal_to_best(right.comparator, 1) or _equal_to_best(comparison.left, -1)
        if not sign:
            continue
        evidence = f"{index.place(comparison)}: {index.source.code(comparison)}"
        pairs = ((right.comparator, comparison.left, sign), (comparison.left, right.comparator, -sign))
        for best, compared, better in pairs:
            for score in dict.fromkeys((compared, _without_margin(compared))):
                sense = _sense(index, comparison, best, score, bindings)
                if sense and is_score(score) and not _by_turn(index, inside, best):
                    found = True
                    saved = _saved_by(index, inside, score, index.source.code(best))
                    direction = "max" if better * sense > 0 else "min"
                    yield _Candidate(score, direction, evidence, _root(best), saved)
        if not found:
            for best, score, better in pairs:
                name = (dotted(best) or "").rpartition(".")[2]
                known = re.search(r"best|lowest|highest", name) or _best_of_history(best)
                if known and _root(score) in bound and is_score(score) and _saves(index, comparison):
                    yield _Candidate(score, "max" if better > 0 else "min", evidence, _root(best))


def _numbers(index: Index, flow: Flow, found: list[_Candidate]) -> Iterator[_Candidate]:
    """Yield candidates with the number by which they compare themselves, where they are objects of a local class."""
    for candidate in found:
        holder = _class_of(index, flow, candidate.node)
        attribute = _compared(index, holder, "__gt__", "__lt__")[0] if holder is not None else ""
        if attribute:
            node = cst.Attribute(cst.parse_expression(index.source.code(candidate.node)), cst.Name(attribute))
            yield replace(candidate, node=node)
        elif holder is None or "__float__" in holder.inner:
            yield candidate


def _better(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[_Candidate]:
    """Scores of objects that tell whether they are better than another: `if metrics.better_than(best_metrics)`."""
    for call in index.calls:
        if not isinstance(call.func, cst.Attribute) or not _in_loop(index, loop, call):
            continue
        name, method = dotted(call.func.value), call.func.attr.value
        holder = _class_of(index, flow, call.func.value) if name and re.search(r"better|improve", method) else None
        attribute, direction = _compared(index, holder, method) if holder is not None else ("", "")
        if attribute:
            evidence = f"{index.place(call)}: {index.source.code(call)}"
            yield _Candidate(cst.parse_expression(f"{name}.{attribute}"), direction, evidence)


def _class_of(index: Index, flow: Flow, node: cst.BaseExpression) -> Scope | None:
    """Return the local class of the objects that an expression stands for, None where it is none or several."""
    origins = flow.origins(node, index.scope_of(node))
    made = [deep.node for origin in origins for deep in (flow.inside(origin) or [origin])]
    made = [one for one in made if dotted(one) != "None"]
    calls = [one for one in made if isinstance(one, cst.Call)]
    classes = {flow.defined(one.func, index.scope_of(one)) for one in calls}
    found = classes.pop() if len(classes) == 1 and len(calls) == len(made) else None
    return found if found is not None and found.kind == "class" else None


def _compared(index: Index, holder: Scope, *methods: str) -> tuple[str, str]:
    """Return the attribute that a class's methods compare, `self.acc > other.acc`, and the direction; else ""."""
    functions = [holder.inner[name] for name in methods if name in holder.inner]
    found = set()
    for comparison in index.comparisons:
        if index.scope_of(comparison) not in functions or len(comparison.comparisons) != 1:
            continue
        left, right = dotted(comparison.left) or "", dotted(comparison.comparisons[0].comparator) or ""
        sign = _COMPARE.get(type(comparison.comparisons[0].operator), 0)
        if "self" not in (left.partition(".")[0], right.partition(".")[0]):
            continue
        same = left.partition(".")[2] == right.partition(".")[2] != ""
        sign = sign if left.startswith("self.") else -sign
        found.add((left.partition(".")[2], "max" if sign > 0 else "min") if same and sign else ("", ""))
    return found.pop() if len(found) == 1 else ("", "")


def _best_of_history(node: cst.BaseExpression) -> bool:
    """Whether an expression is `min(history)` or `max(history)`."""
    return isinstance(node, cst.Call) and dotted(node.func) in ("min", "max") and len(node.args) == 1


def _equal_to_best(node: cst.BaseExpression, side: int) -> int:
    """Return ``side`` for `max(history)`, the other one for `min(history)`, 0 for anything else."""
    return (
        (side if dotted(node.func) == "max" else -side) if isinstance(node, cst.Call) and _best_of_history(node) else 0
    )


def _root(node: cst.BaseExpression) -> str:
    """Return the name that an expression such as `stats["acc"]`, `top1.avg` or `np.mean(accs)` is about."""
    *_, root = _way_to_root(node)
    return root.value if isinstance(root, cst.Name) else ""


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return `acc` for `float(acc)` and `acc.item()`."""
    if not isinstance(node, cst.Call):
        return node
    if isinstance(node.func, cst.Name) and node.func.value in ("float", "int", "round") and node.args:
        return _bare(node.args[0].value)
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "item" and not node.args:
        return _bare(node.func.value)
    return node


def _without_margin(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the `loss` of `loss + min_delta < best`, where small steps do not count."""
    return node.left if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _MARGIN) else node


def _kept_best(index: Index, binding: Binding) -> Iterator[tuple[cst.BaseExpression, str]]:
    """Yield (score, direction) for `best = max(best, score)` and `best = score if score > best else best`."""
    value, best = binding.value, binding.target
    code = index.source.code
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value in ("max", "min"):
        values = [arg.value for arg in value.args]
        if len(values) == 1 and isinstance(values[0], cst.BinaryOperation) and isinstance(values[0].right, cst.List):
            values = [values[0].left, *(element.value for element in values[0].right.elements)]  # `min(old + [loss])`
            best_of = values[1:]
        else:
            best_of = [one for one in values if code(one) != best]
        if len(values) == 2 and len(best_of) == 1 and _BEST.search(best):
            yield best_of[0], value.func.value
    elif isinstance(value, cst.IfExp) and isinstance(value.test, cst.Comparison) and len(value.test.comparisons) == 1:
        right = value.test.comparisons[0]
        sign = _COMPARE.get(type(right.operator))
        kept = value.orelse if code(value.orelse) != best else value.body
        if sign is None or best not in (code(value.body), code(value.orelse)):
            return
        sign = sign if code(value.test.left) == code(kept) else -sign
        sign = sign if kept is value.body else -sign
        yield kept, "max" if sign > 0 else "min"


def _sense(
    index: Index,
    comparison: cst.Comparison,
    best: cst.BaseExpression,
    score: cst.BaseExpression,
    bindings: list[Binding],
) -> int:
    """Tell whether a comparison that holds means a better score.

    Returns:
        1 where it does, -1 where one that does not hold means it, 0 where the best is not taken by it.
    """
    statement = index.statement(comparison)
    code = index.source.code
    if isinstance(statement.node, cst.SimpleStatementLine):
        flag = next((b for b in bindings if b.value is comparison), None)
        return int(flag is not None and re.search(r"best|better|improve", flag.target) is not None)
    if not isinstance(statement.node, cst.If) or not _code_within(index, comparison, statement.node.test):
        return 0
    bare = code(_bare(score))
    wanted = {code(score), bare, f"float({bare})", f"{bare}.item()"}
    if isinstance(score, (cst.Subscript, cst.Attribute)) and _root(best) != dotted(best):
        wanted.add(_root(score))  # the best is kept whole: `if stats["acc"] > best["acc"]: best = stats`
    taken = [b for b in bindings if b.target in (code(best), _root(best)) and b.value is not None]
    if isinstance(best, cst.Subscript):  # `if acc > best[0]: best = (acc, epoch)`
        parts = [(b, _part(b.value, best)) for b in taken if b.value is not None]
        takers = [b.statement for b, part in parts if part is not None and code(part) in wanted]
    else:
        takers = []
    takers += [b.statement for b in taken if b.value is not None and code(b.value) in wanted]
    nots = [
        a for a in index.ancestors(comparison) if isinstance(a, cst.UnaryOperation) and isinstance(a.operator, cst.Not)
    ]
    sense = -1 if nots else 1
    for taker in takers:
        if statement in taker.path:
            return sense if _code_within(index, taker.node, statement.node.body) else -sense
        if taker in statement.following and _leaves(statement.node.body):
            return -sense
    return 0


def _leaves(body: cst.BaseSuite) -> bool:
    last = body.body[-1]
    small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return isinstance(small, (cst.Continue, cst.Break, cst.Return, cst.Raise))


def _saved_by(index: Index, inside: Callable[[cst.CSTNode], bool], score: cst.BaseExpression, best: str) -> bool:
    """Whether a checkpoint is saved where a score is better than the best."""
    name = index.source.code(_bare(score))
    between = [c for c in index.comparisons if inside(c) and all(n in index.source.code(c) for n in (name, best))]
    return any(_saves(index, comparison) for comparison in between)


def _saves(index: Index, comparison: cst.Comparison) -> bool:
    """Whether a checkpoint is saved where a comparison holds, or where a flag says so that it sets."""
    here = index.statement(comparison)
    node, code = here.node, index.source.code
    if isinstance(node, cst.If) and re.search(r"save|copy", code(node.body)):
        return True
    flags = {
        b.target
        for b in index.bindings
        if b.value is comparison or (b.value is not None and code(b.value) == "True" and here is b.statement.parent)
    }
    users = [s.node for s in index.statements if s.scope is here.scope and s is not here] if flags else []
    small = [user for user in users if isinstance(user, (cst.If, cst.SimpleStatementLine))]
    return any(
        re.search(r"save", code(user)) and not flags.isdisjoint(re.findall(r"[\w.]+", code(user))) for user in small
    )


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
                    f"{step.place()}: {step.code}",
                )


def _of_training(index: Index, loop: EpochLoop, value: cst.BaseExpression) -> bool:
    """Whether an expression is made of what the loop over the training batches collects: `np.mean(epoch_losses)`."""
    names = set(names_in(value, called=False))
    return any(
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "append"
        and dotted(call.func.value) in names
        and not set(loop.inner).isdisjoint(index.statement(call).path)
        for call in index.calls
    )


def _watched(index: Index, loop: EpochLoop) -> Iterator[_Candidate]:
    """What the loop gives to something that decides by it: early stopping, a scheduler, a keeper of checkpoints."""
    found: dict[str, list[_Candidate]] = {"scheduler": [], "stop": [], "save": []}
    bound = {b.target.partition(".")[0] for b in index.bindings if _in_loop(index, loop, b.statement.node)}
    for call in index.calls:
        if not _in_loop(index, loop, call):
            continue
        name = dotted(call.func) or ""
        named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
        kind, value = "", named.get("metric", named.get("metrics"))
        if re.search(r"sched\w*\.step(_update)?$", name):
            second = plain[1] if len(plain) == 2 and not isinstance(plain[1], cst.Name) else None
            kind, value = "scheduler", value or second
        elif _STOPS.search(name):
            kind, value = "stop", value or next((v for v in plain if direction_of(index.source.code(v))), None)
        elif re.search(r"save", name):
            kind = "save"
        plainly = value is not None and isinstance(_bare(value), (cst.Name, cst.Attribute, cst.Subscript))
        if kind and value is not None and plainly and _root(value) in bound:
            code = index.source.code(value)
            found[kind].append(_Candidate(value, direction_of(code), f"{index.place(call)}: {index.source.code(call)}"))
    yield from next((candidates for candidates in found.values() if candidates), [])


def _kept(index: Index, flow: Flow, loop: EpochLoop) -> tuple[list[_Candidate], set[Scope]]:
    """Scores of which a function that the loop calls keeps the best: `test(epoch)` with `if acc > best_acc` in it.

    Returns:
        the candidates that the loop can have, and every function that keeps a best.
    """
    candidates: list[_Candidate] = []
    keepers: set[Scope] = set()
    for function, (call, *others) in _validations(index, flow, loop).items():
        given = [name for name in function.parameters if name != "self"]
        found = [c for c in _tracked(index, _code_of(index, function), given) if _outlives(function, c.best)]
        keepers.update([function] if found else [])
        for candidate in [] if others else found:
            handed = _of_self(index, flow, loop, candidate) or _passed_in(index, loop, function, call, candidate)
            handed = handed or _handed_back(index, flow, loop, function, call, candidate)
            candidates += [handed] if handed is not None else []
    return candidates, keepers


def _of_self(index: Index, flow: Flow, loop: EpochLoop, candidate: _Candidate) -> _Candidate | None:
    """Return a score that one method leaves in an attribute, for another to compare, as the loop of a third has it."""
    name, here = dotted(candidate.node) or "", index.scope_of(candidate.node)
    makers = [b.statement for b in index.bindings if b.target == name and b.value is not None]
    makers = [maker for maker in makers if maker.scope.name != "__init__"]
    calls = _called_by(index, flow, loop).get(makers[0].scope, []) if len(makers) == 1 else []
    same = here.enclosing_class is not None and here.enclosing_class is loop.scope.enclosing_class
    if not name.startswith("self.") or not same or len(calls) != 1 or makers[0].scope is here:
        return None
    if makers[0].scope.enclosing_class is not here.enclosing_class:
        return None
    node = makers[0].scope.node
    assert isinstance(node, cst.FunctionDef)
    leaving = [index.statement(one) for one, scope in index.returns if scope is makers[0].scope]
    always = makers[0] in index.statements_in(node.body) and all(one.order > makers[0].order for one in leaving)
    return replace(candidate, node=cst.parse_expression(name), made=index.statement(calls[0])) if always else None


def _passed_in(
    index: Index, loop: EpochLoop, function: Scope, call: cst.Call, candidate: _Candidate
) -> _Candidate | None:
    """Return a score that the loop gives to a function that keeps the best of it: `best.update(epoch, stats)`."""
    name, code = _root(candidate.node), index.source.code(_bare(candidate.node))
    own = any(b.target == name and b.statement.scope is function for b in index.bindings)
    parameters = [one for one in function.parameters if one != "self"]
    if name not in parameters or own or not code.startswith(name):
        return None
    number = parameters.index(name)
    named = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == name]
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    given = next(iter(named or plain[number : number + 1]), None)
    bound = {b.target for b in index.bindings if _in_loop(index, loop, b.statement.node)}
    path = index.statement(call).path
    once = all(
        part in loop.inner or not isinstance(part.node, (cst.For, cst.While))
        for part in path[path.index(loop.statement) + 1 :]
    )
    if given is None or _root(given) not in bound or not once:
        return None
    node = given if code == name else cst.parse_expression(index.source.code(given) + code[len(name) :])
    return replace(candidate, node=node)


def _kept_by_training(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[_Candidate]:
    """Scores of which a function keeps the best that trains for an epoch and then validates."""
    for function, (call, *others) in _called_by(index, flow, loop).items():
        code = index.source.code(function.node)
        if others or ".backward(" not in code or ".eval()" not in code:
            continue
        for candidate in _tracked(index, _code_of(index, function)):
            around = index.statement(candidate.node).ancestors
            of_batches = any(isinstance(part.node, (cst.For, cst.While)) and part.scope is function for part in around)
            if not of_batches and _outlives(function, candidate.best):
                handed = _handed_back(index, flow, loop, function, call, candidate)
                yield from [handed] if handed is not None else []


def _validations(index: Index, flow: Flow, loop: EpochLoop) -> dict[Scope, list[cst.Call]]:
    """Return the functions that the epoch loop itself calls and that do not train, with their calls.

    Those of them that are given an average of the model do not count where another one is.
    """
    found = _called_by(index, flow, loop)
    found = {f: calls for f, calls in found.items() if ".backward(" not in index.source.code(f.node)}
    own = {f: [c for c in calls if not any(map(_averaged, c.args))] for f, calls in found.items()}
    return {f: own[f] or calls for f, calls in found.items()}


def _averaged(arg: cst.Arg) -> bool:
    return any(_AVERAGED.search(name) for name in names_in(arg.value, called=False))


def _called_by(index: Index, flow: Flow, loop: EpochLoop) -> dict[Scope, list[cst.Call]]:
    found: dict[Scope, list[cst.Call]] = {}
    for call in index.calls:
        function = flow.called(call) if _in_loop(index, loop, call) else None
        if function is not None:
            found.setdefault(function, []).append(call)
    return found


def _outlives(function: Scope, name: str) -> bool:
    """Whether a variable is there after the function has returned: the best threshold of one validation is not."""
    return name not in function.names or name in function.outer or name in function.parameters


def _handed_back(
    index: Index, flow: Flow, loop: EpochLoop, function: Scope, call: cst.Call, candidate: _Candidate
) -> _Candidate | None:
    """Return a function's score as the epoch loop gets it, or can get it by a `return`; None where it cannot."""
    code = index.source.code
    returned = [node.value for node, scope in index.returns if scope is function and node.value is not None]
    if isinstance(index.parents[call], cst.Expr):
        own = replace(candidate, call=call)
        unclear = any(code(value) != code(candidate.node) for value in returned)
        return None if unclear or _kept_score(index, flow, loop, own) is None else own
    made = [b.value for b in index.bindings if b.statement.scope is function and b.target == code(candidate.node)]
    same = {code(_bare(candidate.node)), *([code(made[0])] if len(made) == 1 and made[0] is not None else [])}
    for binding in index.bindings:
        if binding.value is call and returned and "." not in binding.target:
            values = [_element(value, binding.item) for value in returned]
            if all(value is not None and code(_bare(value)) in same for value in values):
                return replace(candidate, node=_target_node(index, binding.statement, binding.target))
            written = [_written_items(index, value) for value in values if value is not None]
            keys = {tuple(key for key, item in items if code(_bare(item)) in same) for items in written}
            if len(written) == len(values) and len(keys) == 1 and len(key := keys.pop()) == 1:
                return replace(candidate, node=cst.parse_expression(f"{binding.target}[{key[0]}]"))
    return None


def _written_items(index: Index, value: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]]:
    """Return the code of the keys, and the items, of a tuple, list or dictionary that is written out."""
    if isinstance(value, cst.Dict):
        pairs = [element for element in value.elements if isinstance(element, cst.DictElement)]
        return [(index.source.code(pair.key), pair.value) for pair in pairs]
    if isinstance(value, (cst.Tuple, cst.List)):
        return [(str(number), element.value) for number, element in enumerate(value.elements)]
    return []


def _element(value: cst.BaseExpression, item: int | None) -> cst.BaseExpression | None:
    if item is None:
        return value
    return value.elements[item].value if isinstance(value, cst.Tuple) and item < len(value.elements) else None


def _kept_score(index: Index, flow: Flow, loop: EpochLoop, candidate: _Candidate) -> KeptScore | None:
    """Return how a function is to return the score that it keeps, None where that is not clear."""
    assert candidate.call is not None
    function = index.scope_of(candidate.node)
    node, call = function.node, index.statement(candidate.call)
    between = call.path[call.path.index(loop.statement) + 1 : -1]
    assert isinstance(node, cst.FunctionDef)
    plain = node.asynchronous is None and not re.search(r"\byield\b", index.source.code(node))
    known = all(index.qualified(_called(d.decorator)).startswith("torch.") for d in node.decorators)
    simple = all(isinstance(part.node, (cst.If, cst.With)) or part in loop.inner for part in between)
    if not plain or not known or not simple:
        return None
    expression = index.source.code(candidate.node)
    makers, again = _reaching(index, candidate.node, _makers(index, candidate.node, _code_of(index, function)))
    made = meeting(makers)
    if made is None or again:
        return None
    way = _way_in(index, flow, index.statement(node), made)
    if not isinstance(way.block.node, (cst.SimpleStatementLine, cst.SimpleStatementSuite, cst.For, cst.With)):
        return None
    last = index.statements_in(node.body)[-1]
    kept = KeptScore(
        node=last.node,
        index=index,
        expression=expression,
        call=_outdented(index, candidate.call) + candidate.rest,
        anchors={"call": call.node},
        condition=way.condition,
        ranks=way.ranks,
    )
    if way.guard is not None:
        kept.anchors |= {"guard": way.guard.node, "made": _last_before_leaving(way.block).node}
    for leaving, scope in index.returns:
        place = index.statement(leaving)
        if scope is not function:
            continue
        if leaving.value is not None:
            kept.returns = True
        elif place is last:
            kept.ends = True
        elif place.order > made.order:
            return None
        else:
            tests = [(part, part.node.test) for part in place.ancestors if isinstance(part.node, cst.If)]
            others = [test for part, test in tests if not _by_rank(index, flow, test, part)]
            kept.condition = kept.condition or (f"not ({index.source.code(others[0])})" if others else "")
            kept.ranks = "first" if len(others) < len(tests) else kept.ranks
    return None if kept.returns and (way.guard is not None or kept.ends) else kept


def _outdented(index: Index, node: cst.BaseExpression) -> str:
    """Return an expression's code, its further lines without the indentation of the block that it stands in."""
    first, *rest = index.source.code(node).splitlines(keepends=True)
    width = index.source.position(index.statement(node).node)[1] - 1
    return first + "".join(line[width:] if line[:width].isspace() else line for line in rest)


def _called(decorator: cst.BaseExpression) -> cst.BaseExpression:
    return decorator.func if isinstance(decorator, cst.Call) else decorator


def _named(index: Index, flow: Flow, loop: EpochLoop, keepers: set[Scope]) -> Iterator[_Candidate]:
    """What functions that validate return, as far as its name tells that it is a score.

    A function among ``keepers`` has a best of its own, so another value that it returns may not be what counts.
    """
    for binding, call in _validated(index, flow, loop):
        name = (dotted(call.func) or "").rpartition(".")[2]
        if flow.called(call) in keepers or (not direction_of(binding.target) and binding.item is not None):
            continue
        evidence = f"{index.place(call)}: its name"
        items = _items_of(index, flow, loop, binding, call)
        for item in items or []:
            direction = direction_of(index.source.code(item)) or direction_of(name)
            yield _Candidate(item, direction, evidence)
        if items is None:
            direction = direction_of(binding.target) or direction_of(name)
            yield _Candidate(_target_node(index, binding.statement, binding.target), direction, evidence)


def _validated(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[tuple[Binding, cst.Call]]:
    """Yield the variables of the loop that hold what a validation function returns, with its call."""
    for binding in index.bindings:
        call = binding.value
        if not isinstance(call, cst.Call) or not _in_loop(index, loop, binding.statement.node):
            continue
        name = (dotted(call.func) or "").rpartition(".")[2]
        function = flow.called(call)
        turns = [*loop.inner, *([loop.statement] if loop.by_iteration else [])]
        batches = [part for part in binding.statement.ancestors if part in turns]
        every = batches and not _under_condition(binding.statement, batches[0])
        validates = VALIDATES.search(name) or (function is not None and not every and _validates(index, function))
        moded = isinstance(call.func, cst.Attribute) and name == "eval" and not call.args
        plain = "." not in binding.target and binding.target != "_" and not _NAMES.search(binding.target)
        named = direction_of(binding.target) or not _NO_SCORE.search(binding.target)
        if validates and not moded and plain and named and not _of_batches(index, loop, binding.statement):
            yield binding, call


def _counts(index: Index, loop: EpochLoop, node: cst.BaseExpression) -> bool:
    """Whether an expression is the number of the turn, or is made of it alone: `score = epoch + 1`."""
    name = dotted(node)
    values = [b.value for b in index.bindings if b.target == name and _in_loop(index, loop, b.statement.node)]
    return all(
        value is not None
        and re.search(r"\w\(", index.source.code(value)) is None
        and set(names_in(value)) == {loop.target}
        for value in values or [node]
    )


def _under_condition(statement: Statement, outer: Statement) -> bool:
    return any(isinstance(part.node, cst.If) for part in statement.path[statement.path.index(outer) + 1 :])


def _of_batches(index: Index, loop: EpochLoop, statement: Statement) -> bool:
    """Whether a statement is run for one batch after the other, or for several sets of data, of one validation."""
    inner = statement.path[statement.path.index(loop.statement) + 1 : -1]
    return any(
        isinstance(part.node, (cst.For, cst.While))
        and part not in loop.inner
        and not (isinstance(part.node, cst.For) and _of_phases(index, part.node.iter))
        for part in inner
    )


def _inline(index: Index, loop: EpochLoop) -> list[_Candidate]:
    """What the loop itself makes of its validation, as far as its name tells that it is a score.

    What it computes comes before sums that it only divides, `loss /= n`, and before averages that a meter has.
    """
    computed: list[_Candidate] = []
    others: list[_Candidate] = []
    modes = _modes(index, loop)
    for binding in index.bindings:
        here, direction = binding.statement, direction_of(binding.target)
        if not direction or "." in binding.target or not _in_loop(index, loop, here.node):
            continue
        value = binding.value
        made = isinstance(value, cst.Call if binding.item is not None else (cst.BinaryOperation, cst.Call))
        average = isinstance(value, cst.Attribute) and value.attr.value in _AVERAGES
        inner = here.path[here.path.index(loop.statement) + 1 :]
        once = not any(isinstance(part.node, (cst.For, cst.While)) for part in inner)
        if not once or _mode_at(modes, inner) != "eval" or not (made or average or _divided(here, binding.target)):
            continue
        node, evidence = _target_node(index, here, binding.target), f"{index.place(here.node)}: its name"
        (computed if made else others).append(_Candidate(node, direction, evidence))
    return computed or others


def _modes(index: Index, loop: EpochLoop) -> list[tuple[Statement, str]]:
    """Return the statements of the epoch loop that begin to train or to validate, with "train" or "eval"."""
    found = [(index.statement(part.node), "train") for part in loop.inner]
    for call in index.calls:
        if isinstance(call.func, cst.Attribute) and _in_loop(index, loop, call):
            name, given = call.func.attr.value, [index.source.code(arg.value) for arg in call.args]
            if name == "eval" or (name == "train" and given in ([], ["True"], ["False"])):
                found.append((index.statement(call), "eval" if name == "eval" or given == ["False"] else "train"))
    return found


def _mode_at(modes: list[tuple[Statement, str]], way: list[Statement]) -> str:
    """Return what was begun last before a statement, to which a way leads from the epoch loop; "" for nothing."""
    passed = [(m.order, mode) for m, mode in modes if any(m.siblings is p.siblings and m.order < p.order for p in way)]
    return max(passed)[1] if passed else ""


def _divided(statement: Statement, name: str) -> bool:
    """Whether a statement is `name /= n`."""
    node = statement.node
    return isinstance(node, cst.SimpleStatementLine) and any(
        isinstance(small, cst.AugAssign)
        and isinstance(small.operator, cst.DivideAssign)
        and dotted(small.target) == name
        for small in node.body
    )


def _collected(index: Index, loop: EpochLoop) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield (expression, node) of what a validation in the epoch loop itself adds up over its batches."""
    modes = _modes(index, loop)
    for batches in index.loops:
        node, code = batches.node, index.source.code
        inside = _in_loop(index, loop, node) and batches is not loop.statement and batches not in loop.inner
        if not isinstance(node, cst.For) or not inside or _of_batches(index, loop, batches):
            continue
        way = batches.path[batches.path.index(loop.statement) + 1 :]
        validates = _VALIDATION_DATA.search(code(node.iter)) or _mode_at(modes, way) == "eval"
        if not validates or ".backward(" in code(node):
            continue
        within = [b for b in index.bindings if batches in b.statement.path and b.value is None]
        added = {b.target: b.statement.node for b in within if direction_of(b.target) and "." not in b.target}
        filled = {
            dotted(call.func.value)
            for call in index.calls
            if isinstance(call.func, cst.Attribute) and isinstance(index.parents[call], cst.Expr)
            if call.func.attr.value in ("update", "append", "add") and batches in index.statement(call).path
        }
        averages: dict[str, dict[str, cst.CSTNode]] = {}
        for name in _named_after(index, loop, batches, {*added, *filled}):
            average = _average_of(index, name)
            bound = [b for b in index.bindings if b.target == name.value and _in_loop(index, loop, b.statement.node)]
            if average is not None:
                anew = any(b.statement is index.statement(name) for b in bound)
                makers = [b.value.func for b in bound if isinstance(b.value, cst.Call)]
                several = "[...]" if any("dict" in code(maker).lower() for maker in makers) else ""
                written = (name.value if anew else code(average)) + several
                averages.setdefault(name.value, {}).setdefault(written, average)
        for total, statement in added.items():
            averages.setdefault(total, {total: statement})
        for made in averages.values():
            yield from made.items()


def _named_after(index: Index, loop: EpochLoop, place: Statement, names: set[str | None]) -> list[cst.Name]:
    """Return where the rest of the epoch loop's body takes one of the names after a statement."""
    found = [
        node
        for node, parent in index.parents.items()
        if isinstance(node, cst.Name) and node.value in names and not isinstance(parent, cst.AssignTarget)
        if _in_loop(index, loop, node)
    ]
    return [n for n in found if index.statement(n).order > place.order and place not in index.statement(n).path]


def _average_of(index: Index, name: cst.Name) -> cst.BaseExpression | None:
    """Return the `meter.avg`, `meter.mean()`, `np.mean(x)`, `sum(x) / n` or `100 * x / n` around a name."""
    parent = index.parents[name]
    if isinstance(parent, cst.Attribute) and parent.value is name and parent.attr.value in _AVERAGES:
        outer = index.parents[parent]
        return outer if isinstance(outer, cst.Call) and outer.func is parent else parent
    mean = _mean_of(index, name)
    if mean is not None:
        return mean
    summed = index.parents[parent] if isinstance(parent, cst.Arg) else None
    here: cst.CSTNode = summed if isinstance(summed, cst.Call) and dotted(summed.func) == "sum" else name
    found: cst.BaseExpression | None = None
    while isinstance(outer := index.parents[here], cst.BinaryOperation):
        if not isinstance(outer.operator, (cst.Divide, cst.Multiply)) or (outer.right is here and found is not None):
            break
        found = outer if found is not None or isinstance(outer.operator, cst.Divide) else None
        here = outer
    return found


def _dropped(index: Index, flow: Flow, loop: EpochLoop, keepers: set[Scope]) -> Iterator[_Candidate]:
    """What functions that validate return to an epoch loop that does not take it."""
    for function, (call, *others) in _validations(index, flow, loop).items():
        if others or function in keepers or not _validates(index, function):
            continue
        for node, scope in index.returns:
            code = index.source.code(node.value) if scope is function and node.value is not None else "-"
            direction = "" if "-" in code else direction_of(code)  # `1 - acc` is as good as it is low
            if direction and node.value is not None and isinstance(index.parents[call], cst.Expr):
                candidate = _Candidate(node.value, direction, f"{index.place(node)}: {index.source.code(node)}")
                handed = _handed_back(index, flow, loop, function, call, candidate)
                yield from [handed] if handed is not None else []


def _validates(index: Index, function: Scope) -> bool:
    return VALIDATES.search(function.name) is not None or _looks_like_validation(index, function.node)


def _items_of(
    index: Index, flow: Flow, loop: EpochLoop, binding: Binding, call: cst.Call
) -> list[cst.BaseExpression] | None:
    """Return the numbers that the loop takes out of what a call returns, each once; None where that is one itself."""
    found: dict[str, cst.Subscript] = {}
    means: dict[str, cst.BaseExpression] = {}
    values = _returned_values(index, flow, call, binding.item)
    several = any(_is_collection(index, value) or _is_object(value) for value in values)
    makers = [
        b.statement for b in index.bindings if b.target == binding.target and _in_loop(index, loop, b.statement.node)
    ]
    for node, parent in index.parents.items():
        if not isinstance(node, cst.Name) or node.value != binding.target or not _in_loop(index, loop, node):
            continue
        if binding.statement not in _reaching(index, node, makers)[0]:
            continue
        if isinstance(parent, cst.Subscript) and parent.value is node:
            set_here = isinstance(index.parents[parent], (cst.AssignTarget, cst.AugAssign))
            single = all(isinstance(element.slice, cst.Index) for element in parent.slice)
            if not set_here and single and not _by_turn(index, _code_of(index, loop), parent):
                found.setdefault(index.source.code(parent), parent)
            several = True
        unpacked = isinstance(parent, (cst.StarredDictElement, cst.StarredElement))
        unpacked = unpacked or (isinstance(parent, cst.Arg) and bool(parent.star))
        gone_through = isinstance(parent, cst.Attribute) and parent.attr.value in ("items", "keys", "values")
        several = several or unpacked or gone_through
        taken = parent if isinstance(parent, cst.Subscript) and parent.value is node else node
        mean = _mean_of(index, taken)
        if mean is not None:
            means.setdefault(index.source.code(taken), mean)
    numbers_made = any(isinstance(value, (cst.BinaryOperation, cst.Integer, cst.Float)) for value in values)
    several = several or (not numbers_made and _SEVERAL.search(binding.target) is not None)
    if binding.target in means:
        return [means[binding.target]]
    numbers: list[cst.BaseExpression] = []
    for code, item in found.items():
        parts = [_part(value, item) for value in values]
        if code in means or not any(part is not None and _is_collection(index, part) for part in parts):
            numbers.append(means.get(code, item))
    return numbers if numbers or several else None


def _returned_values(index: Index, flow: Flow, call: cst.Call, item: int | None) -> list[cst.BaseExpression]:
    """Return what a local function visibly returns, its names followed to what they are given."""
    function = flow.called(call)
    returned = [node.value for node, scope in index.returns if scope is function and node.value is not None]
    found = []
    for value in returned:
        element = _element(value, item)
        if isinstance(element, cst.Name):
            found += [
                b.value
                for b in index.bindings
                if b.statement.scope is function and b.target == element.value and b.item is None
            ]
        else:
            found.append(element)
    return [value for value in found if value is not None]


def _is_object(value: cst.BaseExpression) -> bool:
    """Whether an expression makes an object of a class, as its name tells: `Metrics(...)`."""
    name = (dotted(value.func) or "").rpartition(".")[2] if isinstance(value, cst.Call) else ""
    return name[:1].isupper() and "Tensor" not in name


def _is_collection(index: Index, value: cst.BaseExpression) -> bool:
    """Whether an expression is visibly no single number."""
    displays = (cst.Tuple, cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp)
    made = index.qualified(value.func) if isinstance(value, cst.Call) else ""
    return isinstance(value, displays) or (
        re.fullmatch(
            r"(numpy|torch)\.(zeros|ones|array|stack|zeros_like|cat|concatenate)|dict|list|tuple|(collections\.)?defaultdict",
            made,
        )
        is not None
    )


def _part(value: cst.BaseExpression, item: cst.Subscript) -> cst.BaseExpression | None:
    """Return what a subscript takes out of a dictionary, list or tuple that is written out."""
    key = item.slice[0].slice
    if not isinstance(key, cst.Index):
        return None
    if isinstance(value, cst.Dict):
        pairs = [element for element in value.elements if isinstance(element, cst.DictElement)]
        return next((pair.value for pair in pairs if pair.key.deep_equals(key.value)), None)
    if isinstance(value, (cst.List, cst.Tuple)) and isinstance(key.value, cst.Integer):
        return _element(cst.Tuple(value.elements), int(key.value.value))
    return None


def _mean_of(index: Index, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return `np.mean(x)` or `x.mean()` where ``node`` is the `x` of it."""
    parent = index.parents[node]
    outer = index.parents[parent]
    if isinstance(parent, cst.Attribute) and parent.attr.value == "mean" and isinstance(outer, cst.Call):
        return None if outer.args else outer
    if isinstance(parent, cst.Arg) and isinstance(outer, cst.Call) and len(outer.args) == 1:
        return outer if re.search(r"\.(nan)?mean$", dotted(outer.func) or "") else None
    return None


def _is_size(index: Index, node: cst.BaseExpression) -> bool:
    """Whether an expression is how much there is of something, as in `if points.size(1) < limit: limit = ...`."""
    return re.fullmatch(r"len\(.*\)|[\w.]+(\.(size|numel)\(.*\)|\.shape\[.*\])", index.source.code(node)) is not None


def _by_turn(
    index: Index,
    inside: Callable[[cst.CSTNode], bool],
    node: cst.BaseExpression,
    statement: Statement | None = None,
) -> bool:
    """Whether an expression is a loop's variable or is taken by one, as `measures[i]` is: one of several values.

    Only loops ``inside`` the code count, and none over phases written out, such as `for phase in ["train", "val"]`.
    """
    statement = statement or index.statement(node)
    around = [part.node for part in statement.ancestors if isinstance(part.node, cst.For)]
    loops = [one for one in around if inside(one) and not _of_phases(index, one.iter)]
    variables = {name for one in loops for name in names_in(one.target, called=False)}
    bare = _bare(node)
    if isinstance(bare, cst.Subscript):
        return any(name in variables for element in bare.slice for name in names_in(element, called=False))
    return isinstance(bare, cst.Name) and bare.value in variables


def _of_phases(index: Index, node: cst.BaseExpression) -> bool:
    """Whether a list or tuple names phases of an epoch: `["train", "val"]`, `[("train", loader), ("val", other)]`."""
    return isinstance(node, (cst.List, cst.Tuple)) and re.search(r"train", index.source.code(node)) is not None


def _looks_like_validation(index: Index, function: cst.CSTNode) -> bool:
    code = index.source.code(function)
    return re.search(r"no_grad\(|inference_mode\(", code) is not None and ".backward(" not in code


def _target_node(index: Index, statement: Statement, target: str) -> cst.BaseExpression:
    for node, parent in index.parents.items():
        binds = isinstance(parent, (cst.AssignTarget, cst.AugAssign, cst.Element))
        if isinstance(node, cst.Name) and node.value == target and binds:
            if index.statement(node) is not statement:
                continue
            return node
    raise LookupError(target)


def _given(index: Index, metric: str, known: list[_Candidate]) -> list[_Candidate]:
    """The user's own expression, with the direction that the script shows for it."""
    return [replace(c, best="") for c in known if index.source.code(c.node) == metric][:1]


def _measured(index: Index, flow: Flow, loop: EpochLoop, metric: str) -> Iterator[_Candidate]:
    """The user's expression where the loop does not know its names, but a function does that it calls."""
    name = _root(cst.parse_expression(metric))
    if any(b.target.partition(".")[0] == name and _in_loop(index, loop, b.statement.node) for b in index.bindings):
        return
    for function, (call, *others) in _validations(index, flow, loop).items():
        if name not in function.names or others:
            continue
        places = [
            node
            for node in index.parents
            if isinstance(node, cst.BaseExpression)
            and index.scope_of(node) is function
            and not isinstance(index.parents[node], cst.AssignTarget)
            and index.source.code(node) == metric
        ]
        returned = [node.value for node, scope in index.returns if scope is function and node.value is not None]
        places = places or [node for node in returned if dotted(node) == name and metric.startswith(name)]
        if places:
            last = max(places, key=index.source.position)
            rest = metric[len(name) :] if dotted(last) == name else ""
            candidate = _Candidate(last, direction_of(metric), f"{index.place(last)}: --metric", rest=rest)
            handed = _handed_back(index, flow, loop, function, call, candidate)
            yield from [handed] if handed is not None else []


def _makers(index: Index, node: cst.BaseExpression, inside: Callable[[cst.CSTNode], bool]) -> list[Statement]:
    """Return the statements ``inside`` that make a value, other than those that only begin it with a constant."""
    parts = {_as_item(index, part) for part in _way_to_root(node)} if node in index.parents else {_root(node)}
    here = [b for b in (*index.bindings, *index.items, *index.appended) if inside(b.statement.node)]
    made = [b for b in here if not isinstance(b.value, (cst.Integer, cst.Float, cst.Name))]
    anew = [b for b in made if _unquoted(b.target) in parts]
    begun = [b for b in anew if b.target == _root(node) and not isinstance(_bare(node), cst.Name) and _begins(index, b)]
    if begun and len(begun) < len(anew):
        anew = [b for b in anew if b not in begun]
    elif begun and node in index.parents and _filled_here(index, node, begun, inside):
        return [index.statement(node)]
    own = {b.target for b in made}
    named = [b for b in here if _unquoted(b.target) in parts and isinstance(b.value, cst.Name)]
    renamed = [b for b in named if isinstance(b.value, cst.Name) and b.value.value in own]
    other_branches = [b for b in named if any(_exclusive(b.statement, one.statement) for one in anew)]
    return [b.statement for b in [*anew, *other_branches] or renamed]


def _way_to_root(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield an expression and what it takes its value out of: `rs["val"]["acc"]`, `rs["val"]`, `rs`."""
    yield (node := _bare(node))
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call, cst.BinaryOperation)):
        if isinstance(node, cst.Call) and node.args and _COMPUTES.match(dotted(node.func) or ""):
            node = node.args[0].value
        elif isinstance(node, cst.BinaryOperation):
            node = node.left if _root(node.left) else node.right
        else:
            node = node.func if isinstance(node, cst.Call) else node.value
        yield node


def _as_item(index: Index, node: cst.BaseExpression) -> str:
    """Return an expression's code, `stats.get(key)` as the `stats[key]` that is assigned."""
    code = _unquoted(index.source.code(node))
    return re.sub(r"\.get\(([^(),]+)(,[^(),]+)?\)$", r"[\1]", code)


def _unquoted(code: str) -> str:
    return code.replace('"', "'")


def _begins(index: Index, binding: Binding) -> bool:
    """Whether what a variable is given still has to be filled: an empty collection, one of constants, a new meter."""
    value = binding.value
    if isinstance(value, cst.Call):
        name = (dotted(value.func) or "").rpartition(".")[2]
        return name[:1].isupper() or name in ("dict", "list", "set", "zeros", "ones", "defaultdict")
    constants = (cst.Integer, cst.Float, cst.SimpleString, cst.Name, cst.UnaryOperation)
    if isinstance(value, cst.Dict):
        return all(isinstance(one, cst.DictElement) and isinstance(one.value, constants) for one in value.elements)
    if isinstance(value, (cst.List, cst.Tuple)):
        return all(isinstance(one, cst.Element) and isinstance(one.value, constants) for one in value.elements)
    return False


def _filled_here(
    index: Index, node: cst.BaseExpression, begun: list[Binding], inside: Callable[[cst.CSTNode], bool]
) -> bool:
    """Whether what is begun before is filled under a condition that ``node`` is under too, or nowhere to be seen."""
    name, here = _root(node), index.statement(node)
    fills = [b.statement for b in index.items if b.target.partition("[")[0] == name and inside(b.statement.node)]
    fills += [
        index.statement(call)
        for call in index.calls
        if isinstance(call.func, cst.Attribute) and dotted(call.func.value) == name and inside(call)
        if isinstance(index.parents[call], cst.Expr)
    ]
    around = {part for b in begun for part in b.statement.path}
    ifs = {part for part in here.ancestors if isinstance(part.node, cst.If) and part not in around}
    return not fills or any(not ifs.isdisjoint(fill.path) for fill in fills)


def _reaching(index: Index, node: cst.CSTNode, makers: list[Statement]) -> tuple[list[Statement], bool]:
    """Leave those makers whose value can be the one at ``node``; tell as well whether one makes it anew after that."""
    here = index.statement(node)
    early = [maker for maker in makers if maker.order <= here.order or _exclusive(maker, here)]
    sure = [maker.order for maker in early if any(maker in part.siblings for part in here.path)]
    return [maker for maker in early if not sure or maker.order >= max(sure)], len(early) < len(makers)


def _exclusive(one: Statement, other: Statement) -> bool:
    """Whether two statements stand in different branches of an `if`."""
    for mine, its in zip(one.path, other.path, strict=False):
        if mine is not its:
            parent = mine.parent
            return parent is not None and isinstance(parent.node, cst.If) and mine.siblings is not its.siblings
    return False


def _site(index: Index, flow: Flow, loop: EpochLoop, candidate: _Candidate) -> Score | None:
    own = candidate.node in index.parents
    expression = index.source.code(candidate.node) if own else cst.Module(body=[]).code_for_node(candidate.node)
    name = _root(candidate.node)
    makers: list[Statement] = []
    kept = _kept_score(index, flow, loop, candidate) if candidate.call is not None else None
    if kept is not None and candidate.call is not None:
        here, again = index.statement(candidate.call), False
    elif candidate.made is not None:
        here, again = candidate.made, False
    else:
        makers, again = _makers(index, candidate.node, _code_of(index, loop)), False
        if makers and own:
            reaching, again = _reaching(index, candidate.node, makers)
            makers = reaching or makers
        elif makers:
            validating = {binding.statement for binding, _ in _validated(index, flow, loop)}
            measured = [maker for maker in makers if maker in validating] or makers
            again = max(m.order for m in makers) > max(m.order for m in measured)
            makers = measured
        here = meeting(makers) or index.statements_in(loop.body)[-1]
        if own and makers:
            here = _where_of_validation(index, flow, loop, candidate.node, makers) or here
        if not makers and own:
            here = index.statement(candidate.node)
    turns = [part for part in here.path[:-1] if part in loop.inner]
    way = _way_in(index, flow, turns[-1] if turns else loop.statement, here)
    direct = bool(way.condition) and (bool(turns) or loop.by_iteration)
    if turns and not direct:
        if kept is not None:
            return None
        turns, way = [], _way_in(index, flow, loop.statement, here)
    trains = re.search(rf"\b{name}\b.*\.backward\(", index.source.code(loop.body)) if name and kept is None else None
    if len(turns) > 1 or (loop.by_iteration and candidate.best and trains and not way.condition):
        return None  # the loss of single batches is no score to decide by
    together = direct and way.ranks == "all" and not way.looped
    guard = None if together else way.guard
    outer = guard or way.block
    if guard is None and kept is None and _of_some_ranks(index, flow, loop, candidate.node, name):
        expression = f"{expression} if {name} is not None else None"
    score = Score(
        node=here.node if not own else candidate.node if candidate.call is None else candidate.call,
        index=index,
        expression=expression,
        direction=candidate.direction or _told_by_value(index, candidate.node, makers),
        evidence=candidate.evidence,
        saved=candidate.saved,
        kept=kept,
        known=kept is not None or not name or name in flow.variable(name, loop.scope)[0].names,
        condition=way.condition or (kept.condition if kept is not None else ""),
        ranks="first" if kept is not None and kept.ranks == "first" else way.ranks,
        when=_common_condition(index, flow, way) if direct and guard is not None else "",
        anchors={"report": (guard if direct and guard is not None else _last_before_leaving(outer)).node},
    )
    score.anchors |= {"loop": loop.node} | ({"turn": turns[0].node} if turns else {})
    score.cut_off = _cut_off(index, flow, outer)
    score.once = re.fullmatch(rf"{re.escape(loop.target or '-')} ?== ?[\w.\[\]'\" +-]+", score.condition) is not None
    if guard is not None:
        score.anchors |= {"guard": guard.node, "made": _last_before_leaving(way.block).node}
    elif again and not direct:
        score.anchors["made"] = way.block.node
    return score


def _where_of_validation(
    index: Index, flow: Flow, loop: EpochLoop, node: cst.BaseExpression, makers: list[Statement]
) -> Statement | None:
    """Return where a score is compared in those turns alone that validate, if in the others its value is training's."""
    path = index.statement(node).path
    inner = path[path.index(loop.statement) + 1 :]
    place = 0
    while place + 1 < len(inner) and isinstance(test := inner[place].node, cst.If):
        place += 1
        if not _by_rank(index, flow, test.test, inner[place - 1]):
            break
    if place == 0 or any(inner[place - 1] in maker.path for maker in makers):
        return None
    validating = {binding.statement for binding, _ in _validated(index, flow, loop)}
    values = [b.value for b in index.bindings if b.statement in makers and b.value is not None]
    for name in {_root(node), *(name for value in values for name in names_in(value, called=False))}:
        bound = [b for b in index.bindings if b.target == name and _in_loop(index, loop, b.statement.node)]
        called = {b.statement for b in bound if isinstance(b.value, cst.Call)}
        if called & validating and called - validating:
            return inner[place]
    return None


def _told_by_value(index: Index, node: cst.BaseExpression, makers: list[Statement]) -> str:
    """Return the direction that the name of a function, item or attribute tells out of which a variable is made."""
    values = [b.value for b in index.bindings if b.statement in makers and b.target == dotted(node) and b.item is None]
    told = set()
    for value in (_bare(value) for value in values if value is not None):
        last = value.func if isinstance(value, cst.Call) else value
        last = last.attr if isinstance(last, cst.Attribute) else last
        words = last.slice[-1] if isinstance(last, cst.Subscript) else last
        told.add(direction_of(index.source.code(words)) if isinstance(words, (cst.Name, cst.SubscriptElement)) else "")
    return told.pop() if len(told) == 1 else ""


def _of_some_ranks(index: Index, flow: Flow, loop: EpochLoop, node: cst.BaseExpression, name: str) -> bool:
    """Whether an expression takes something out of a variable that a function returns on some ranks only."""
    made = [b for b in index.bindings if b.target == name and _in_loop(index, loop, b.statement.node)]
    functions = [flow.called(b.value) for b in made if isinstance(b.value, cst.Call) and b.item is None]
    if isinstance(_bare(node), cst.Name) or not functions or None in functions or len(functions) < len(made):
        return False
    valued = [
        index.statement(one)
        for one, scope in index.returns
        if scope in functions and one.value is not None and dotted(one.value) != "None"
    ]
    tests = [
        [p.node.test for p in one.ancestors if isinstance(p.node, cst.If) and p.scope is one.scope] for one in valued
    ]
    return bool(tests) and all(any(_lets_through_some(index, test) for test in around) for around in tests)


def _way_in(index: Index, flow: Flow, body: Statement, made: Statement) -> _Way:
    """Go from the body of a loop or function towards the place where the score is made, through conditions only.

    What is made under a condition inside a loop of its own may never be made, so that loop is the guard then.
    """
    inner = made.path[made.path.index(body) + 1 :]
    conditions: list[str] = []
    others: list[str] = []
    guard, block, ranked, looped = None, inner[-1], False, False
    for number, (statement, below) in enumerate(zip(inner, [*inner[1:], None], strict=True)):
        node = statement.node
        deeper = below is not None and any(isinstance(part.node, cst.If) for part in inner[number + 1 : -1])
        if not isinstance(node, cst.If) and deeper:
            looped = looped or not isinstance(node, cst.With)
            guard = guard or statement
            continue
        if not isinstance(node, cst.If) or below is None:
            block = statement
            break
        guard = guard or statement
        yes = _code_within(index, below.node, node.body)
        parts = conjuncts(node.test) if yes else [node.test]
        common = [part for part in parts if not _by_rank(index, flow, part, statement)]
        ranked = ranked or len(common) < len(parts)
        if looped:
            continue
        code = [index.source.code(part) if yes else f"not ({index.source.code(part)})" for part in common]
        others += code
        if len(common) == len(parts):
            conditions.append(index.source.code(node.test) if yes else code[0])
    if len(conditions) > 1:
        conditions = [f"({one})" if " or " in one else one for one in conditions]
    return _Way(guard, block, " and ".join(conditions or others[:1]), "first" if ranked else "all", looped)


def _by_rank(index: Index, flow: Flow, test: cst.BaseExpression, at: Statement) -> bool:
    """Whether a condition may hold on some ranks only.

    It names a rank, a flag that a rank check gives, or what only some ranks have: `if should_write:`, `if result:`.
    """
    code = index.source.code(test)
    if re.search(r"rank == -1$", code):
        return False  # of all ranks alike: there is no process group
    if _RANK_CHECK.search(code):
        return True
    return any(
        source.value is not None
        and at not in index.statement(source.value).path
        and _given_by_rank(index, flow, source.value)
        for name in names_in(test, called=False)
        for source in flow.sources(flow.variable(name, at.scope))
    )


def _given_by_rank(index: Index, flow: Flow, value: cst.BaseExpression) -> bool:
    """Whether a value differs between ranks, as a rank check tells."""
    tests = [value.test if isinstance(value, cst.IfExp) else value]
    function = flow.called(value) if isinstance(value, cst.Call) else None
    returns = [index.statement(node) for node, scope in index.returns if scope is function]
    for place in [index.statement(value), *returns]:
        tests += [p.node.test for p in place.ancestors if isinstance(p.node, cst.If) and p.scope is place.scope]
    return any(_lets_through_some(index, test) for test in tests)


def _lets_through_some(index: Index, test: cst.BaseExpression) -> bool:
    if isinstance(test, cst.BooleanOperation):
        return _lets_through_some(index, test.left) or _lets_through_some(index, test.right)
    return condition(index, test) != "" or re.search(r"\bgpu == 0", index.source.code(test)) is not None


def _common_condition(index: Index, flow: Flow, way: _Way) -> str:
    """Return what of the conditions on the way is the same on all ranks and holds afterwards too, "" where unclear."""
    assert way.guard is not None
    around = [part for part in way.block.path[:-1] if way.guard in part.path]
    ifs = [(part, part.node) for part in around if isinstance(part.node, cst.If)]
    parts = [p for part, node in ifs for p in conjuncts(node.test) if not _by_rank(index, flow, p, part)]
    changed = {b.target for b in index.bindings if way.guard in b.statement.path}
    changed.update(name for scope in index.scopes for name in scope.outer)
    found = []
    for part in parts:
        code = index.source.code(part)
        calls = set(re.findall(r"([\w.]+)\(", code)) - {"len", "int", "min", "max"}
        if calls or ":=" in code or not changed.isdisjoint(re.findall(r"[\w.]+", code)):
            return ""
        low = isinstance(part, (cst.BooleanOperation, cst.IfExp, cst.Lambda)) and not part.lpar
        found.append(f"({code})" if low or "\n" in code else code)
    return " and ".join(found) if all(_code_within(index, way.block.node, node.body) for _, node in ifs) else ""


def _cut_off(index: Index, flow: Flow, place: Statement) -> int:
    """Return the line at which some ranks leave the epoch before its score can be handed over, 0 where none do."""
    for earlier in place.preceding:
        node = earlier.node
        if isinstance(node, cst.If) and _leaves(node.body) and _by_rank(index, flow, node.test, earlier):
            return index.source.position(node)[0]
    return 0


def _last_before_leaving(place: Statement) -> Statement:
    """Return the last statement of the block that does not end it."""
    last = place.siblings[-1]
    node = last.node
    if isinstance(node, cst.SimpleStatementLine) and isinstance(
        node.body[0], (cst.Return, cst.Continue, cst.Break, cst.Raise)
    ):
        return last.siblings[last.index - 1] if last.index else last
    return last
