"""Keeps process groups to the end of their process.

Where the last reference to one of gloo's goes while one of its threads waits for Python's lock, the two wait for each
other for ever (torch 2.13), or the process aborts at its end: `terminate called without an active exception`.
"""

from typing import Any

import torch.distributed.distributed_c10d as c10d

_kept: list[Any] = []
_make = c10d._new_process_group_helper


def _make_and_keep(*arguments: Any, **options: Any) -> Any:
    made = _make(*arguments, **options)
    _kept.append(made)
    return made


c10d._new_process_group_helper = _make_and_keep
