"""The words by which the rules of `retrofit check` name their sites."""

from __future__ import annotations

#: Each kind with the module of this package whose `find` returns its sites.
KINDS = {
    "sampler": "loaders",
    "loader": "loaders",
    "evaluation": "loaders",
    "save": "checkpoints",
    "saved-state": "checkpoints",
    "restored-state": "checkpoints",
    "checkpoint-read": "checkpoints",
    "collective": "collectives",
    "wrapped-forward": "collectives",
    "accumulation": "steps",
    "loss-weight": "steps",
}
