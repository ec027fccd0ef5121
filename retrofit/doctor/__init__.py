"""`retrofit doctor`: says whether this machine can train with PerforatedAI on several processes.

`runs` and `machine` find facts out, `judge_*` turn facts into findings. Nothing here imports torch: what is known of it
comes from `probe.py` and `ranks.py`, which run with the interpreter that trains.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from retrofit.doctor.facts import Interpreter
from retrofit.doctor.finding import Finding, exit_code, to_json, to_text, verdict
from retrofit.doctor.judge_environment import judge_environment
from retrofit.doctor.judge_gpus import judge_gpus
from retrofit.doctor.judge_group import judge_group
from retrofit.doctor.judge_machine import judge_machine
from retrofit.doctor.judge_software import judge_software
from retrofit.doctor.machine import look_around
from retrofit.doctor.runs import ask, try_group
from retrofit.progress import Told, untold
from retrofit.wording import counted

__all__ = ["Finding", "examine", "exit_code", "to_json", "to_text"]


def examine(
    python: str,
    ranks: int | None,
    timeout: float,
    proven: Mapping[str, tuple[str, ...]],
    told: Told = untold,
) -> list[Finding]:
    """Look at everything that training needs; the last finding is the verdict.

    Args:
        python: the interpreter that trains, a path or a name on PATH.
        ranks: how many processes to try; None for one on each visible GPU, at least two.
        timeout: seconds that the imports may take, and then the process group.
        proven: the versions of packages that the recipe was proven with, by their names, the best one last.
        told: is told of each step.

    Raises:
        UserError: the interpreter does not exist, or is no Python.
    """
    environ = dict(os.environ)
    told("asking the Python that trains", "")
    facts = ask(python, environ, timeout)
    machine = look_around(environ)
    number = ranks or max(2, len(facts.gpus))
    on_gpus = number <= len(facts.gpus) and facts.nccl is not None
    told("starting a process group", f"of {counted(number, 'process', 'processes')}")
    findings = [
        *judge_software(facts, machine, proven),
        *judge_gpus(facts, machine, ranks),
        *judge_environment(facts, machine, number),
        *judge_machine(facts, machine, number),
        *_tried(facts, environ, number, on_gpus, timeout),
    ]
    return [*findings, verdict(findings, number, on_gpus)]


def _tried(facts: Interpreter, environ: Mapping[str, str], ranks: int, on_gpus: bool, timeout: float) -> list[Finding]:
    backend = "nccl" if on_gpus else "gloo"
    if facts.torch is None or not facts.distributed or (backend == "gloo" and not facts.gloo):
        what = "None was tried, as torch cannot do it; see above."
        return [Finding("process group", "warning", what, "Solve that problem, and run retrofit doctor again.")]
    try:
        return judge_group(try_group(facts.executable, ranks, backend, environ, timeout))
    except OSError as error:
        what = f"The processes cannot be started: {error.strerror or error}."
        return [
            Finding("process group", "problem", what, "Free memory, processes (ulimit -u) or the temporary folder.")
        ]
