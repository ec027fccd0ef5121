"""What the names of metrics, variables and calls tell about a score, and what may be one."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from retrofit.survey.scopes import Scope, Statement

BEST = re.compile(r"best|lowest|highest|(?<![^\W_])(min|max|top|record)_", re.IGNORECASE)
_HIGHER = re.compile(
    r"(?<![a-z])([a-z]*acc(uracy|uracies|s)?|(?<!loss_)accu(?!_?(loss|err|grad|num|step|iter|batch))|[a-z]*iou|m?ious"
    r"|[a-z]*f1|f_?(score|measure|beta)|[a-z]*auc|auroc|auprc?|dices?"
    r"|dsc|jaccard|psnrs?|[a-z]*ssims?|bleu|rouge|meteor|cider|recall|prec(ision)?|correct|rewards?|r2|kappa|hits?|ndcg"
    r"|mrr|m?ap|(?-i:m?APs)|maph|coco_eval|top|scores?|pck|pesq|stoi|snr|(si)?s[dn]r|exact_match|nmi|ari|pearsonr?|spearmanr?"
    r"|s?rocc|[spk]l?r?cc|mcc|corr)(?![a-z])",
    re.IGNORECASE,
)
_LOWER = re.compile(
    r"(?<![a-z])([a-z]*loss(es)?|err(or|ors|s)?|r?mse|rmsle|rms|(abs|sq)_?rel|s?mape|mae|mpjpe|mpvpe|ppl|perplexity|nll"
    r"|bce|cross_?entropy|xent|bp[cdp]|[wcedt]er|fid|epe|(min)?[af]de|nme|lpips|hausdorff|chamfer|costs?"
    r"|dist(ance)?)(?![a-z])",
    re.IGNORECASE,
)
#: The share of outliers in KITTI's optical flow, which is better lower, goes by the name of a measure better higher.
_EITHER = re.compile(r"f1[-_]?all|kitti[-_]?f1", re.IGNORECASE)
NO_SCORE = re.compile(r"loader|dataset|sampler|transform|path|data|model|net|output|pred", re.IGNORECASE)
NAMES = re.compile(r"(^|_)(names?|labels?|keys?|titles?)$", re.IGNORECASE)
NO_VALUE = re.compile(r"func|fn\b|types?\b|crit|loader|counts?\b|lists?\b|thr(e|es|esh|eshold)?s?\b", re.IGNORECASE)
SEVERAL = re.compile(r"(metrics|measures|stats|statistics|results?|report|summary|dict)$", re.IGNORECASE)
AVERAGED = re.compile(r"(^|_)(ema|swa)(_|\b)", re.IGNORECASE)
STOPS = re.compile(r"early_?stop|stopper", re.IGNORECASE)
OF_TRAINING = re.compile(r"(?<![a-z])train(?!ed|er)", re.IGNORECASE)
COMPUTES = re.compile(r"((np|numpy|torch|math|statistics)\.\w+|sum|max|min|abs|list|tuple|sorted)$")
AVERAGES = ("avg", "mean", "average", "global_avg", "compute")
VALIDATION_DATA = re.compile(r"(?<![A-Za-z])([Vv]al|[Tt]est|[Ee]val|[Dd]ev(?!ice))")


@dataclass(frozen=True)
class Candidate:
    """A value that may be the score.

    Attributes:
        best: the root of what holds the best of it, "" where the script keeps none.
        holder: the code of what holds it where it is compared, "" elsewhere.
        keeper: the function that compares it.
        saved: whether a checkpoint is saved by it.
        call: the loop's call of the function that keeps it, None where the loop itself has it.
        inner: the further calls on the way to that function, where others lie between.
        rest: what is to be taken out of the node's value.
        taken: what takes that value out of what the function returns.
        made: the statement of the loop that makes it, where that is no assignment.
        compared: where the script compares it, where the node is none of its own, as of an object that tells itself.
        written: its code, where that is more than the node's.
        named: whether the user names it.
        outside: whether it is one only where an evaluation makes it, as the code gives no variable of it a value, or
            compares its difference to the best, as it does of the time too.
        noted: whether the function is to note it, as it cannot return it.
        beside: those of other functions that keep the same best, and note theirs in the turns in which they run.
    """

    node: cst.BaseExpression
    direction: str
    evidence: str
    best: str = ""
    holder: str = ""
    saved: bool = False
    keeper: Scope | None = None
    call: cst.Call | None = None
    inner: tuple[cst.Call, ...] = ()
    rest: str = ""
    taken: str = ""
    made: Statement | None = None
    compared: cst.CSTNode | None = None
    written: str = ""
    named: bool = False
    outside: bool = False
    noted: bool = False
    beside: tuple[Candidate, ...] = ()


def direction_of(name: str) -> str:
    """Return "max" or "min" as a metric's name tells, "" where it does not."""
    higher, lower = _HIGHER.search(name), _LOWER.search(name)
    if bool(higher) == bool(lower) or _EITHER.search(name):
        return ""
    return "max" if higher else "min"


def told_by_name(name: str) -> str:
    """Return the direction that a name tells by more than that it is of a score, as a loss or an error rate is too."""
    return direction_of(re.sub(r"(?<![a-z])(?<!f_)scores?(?![a-z])", "", name, flags=re.IGNORECASE))
