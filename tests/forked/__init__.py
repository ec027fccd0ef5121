"""A Python for tests that starts in a moment: forks of one that has imported torch already.

It is for tests of what a script does, which start dozens of processes that would each import torch for seconds. What a
process finds is what a plain Python gives it: arguments, environment, PYTHONPATH, sitecustomize, working folder,
descriptors, the parent's number, signals; and whoever starts it sees its output and its end. Not so, and to be known:

- Its modules were imported before its environment was known, but for perforatedai, whose import asks torch for devices.
- An agent of torchrun does not look for the files of its frames, and UNDRAWN_GRAPHS has graphs be empty files.
- All processes of a server have one seed of hashes, so that sets are gone through alike.
- Its number is another than its starter knows, its process group its own, and neither the interpreter nor gloo is torn
  down at the end. Tests of a launcher, its signals and its processes use a plain Python.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
#: What a training imports, or torch and the library at their first use.
TRAINING = (
    "torch",
    "torch._dynamo",
    "torch.distributed.elastic.agent.server.local_elastic_agent",
    "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend",
    "torch.distributed.launcher.api",
    "matplotlib.backends.backend_agg",
    "matplotlib.pyplot",
    "pandas",
    "pdb",
    "requests",
    "safetensors.torch",
    "process_groups",  # beside the server, as those that follow
    "rendezvous_names",
    "undrawn_graphs",
)


@cache
def training_python() -> str:
    """Return the program of a Python with all that a training imports, which lasts as long as this process."""
    stack = ExitStack()
    program = stack.enter_context(forked_python(TRAINING))
    atexit.register(stack.close)  # after the folder's own clean-up, which comes later then
    return program


@contextmanager
def forked_python(modules: Sequence[str]) -> Iterator[str]:
    """Give a program that runs as Python does, in forks of one that has imported ``modules``.

    It is Python itself on macOS, whose own libraries do not stand a fork, and where a `#!` line cannot name Python.
    """
    first_line = f"#!{sys.executable} -IS\n"
    if sys.platform == "darwin" or " " in sys.executable or len(first_line) > 120:
        yield sys.executable
        return
    with tempfile.TemporaryDirectory() as folder:
        program, socket = Path(folder, "python"), Path(folder, "socket")
        program.write_text(first_line + (_HERE / "client.py").read_text())
        program.chmod(0o755)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with subprocess.Popen(
            [sys.executable, str(_HERE / "server.py"), str(socket), str(program), *modules],
            env={**inherited, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"},
            stdin=subprocess.PIPE,  # it ends when this does
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for those who started its forks
        ) as server:
            assert server.stdout is not None
            if server.stdout.readline() != b"ready\n":
                raise RuntimeError("the Python that forks did not start")
            yield str(program)
