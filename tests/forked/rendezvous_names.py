"""Names what an agent of torchrun does by its frames alone, for the events that it records.

It asks `inspect.stack()`, which looks through all modules for each frame: most of what a start of torchrun takes where
thousands are imported, as here (torch 2.13).
"""

import sys

from torch.distributed.elastic.rendezvous import dynamic_rendezvous


def _method_name(depth: int = 2) -> str:
    return sys._getframe(depth).f_code.co_name


dynamic_rendezvous.get_method_name = _method_name
