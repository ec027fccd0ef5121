"""Loaded by every process of a training under test: notes a digest of the parameters after each optimizer step.

The files `digest-RUN-RANK` in $TEST_DIGESTS then say whether the ranks of a run ended with equal parameters.
"""

import os

if "TEST_DIGESTS" in os.environ and "RANK" in os.environ:
    import hashlib
    import pathlib

    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def _note(optimizer: torch.optim.Optimizer, *_: object) -> None:
        digest = hashlib.sha256()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                digest.update(parameter.detach().cpu().numpy().tobytes())
        run, rank = os.environ.get("TORCHELASTIC_RUN_ID", "0"), os.environ["RANK"]
        pathlib.Path(os.environ["TEST_DIGESTS"], f"digest-{run}-{rank}").write_text(digest.hexdigest())

    register_optimizer_step_post_hook(_note)
