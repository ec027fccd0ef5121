"""The words by which the rules of `retrofit check` name their sites."""

from __future__ import annotations

#: Each kind with the module of this package whose `find` returns its sites.
KINDS = {
    "sampler": "loaders",
    "loader": "loaders",
    "wrapping": "wrapping",
    "own-attribute": "wrapping",
    "fairscale-call": "wrapping",
    "group": "processes",
    "rank-option": "processes",
    "launcher": "processes",
    "fixed-device": "devices",
    "same-device": "devices",
    "wrong-backend": "devices",
    "seed": "devices",
    "scaled-rate": "devices",
    "print": "devices",
    "evaluation": "loaders",
    "save": "checkpoints",
    "saved-state": "checkpoints",
    "restored-state": "checkpoints",
    "checkpoint-read": "checkpoints",
    "collective": "collectives",
    "wrapped-forward": "collectives",
    "accumulation": "steps",
    "loss-weight": "steps",
    "old-name": "library",
    "library-setting": "library",
    "assigned-setting": "library",
    "library-call": "library",
}
