"""Asks the interpreter that trains: runs `probe.py` and `ranks.py` with it, and reads what they print."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retrofit.doctor.children import run_together
from retrofit.doctor.facts import Gpu, Group, Interpreter, Rank
from retrofit.errors import Problem, UserError

PROBE = Path(__file__).with_name("probe.py")
RANKS = Path(__file__).with_name("ranks.py")


def ask(python: str, environ: Mapping[str, str], timeout: float) -> Interpreter:
    """Return what an interpreter has for training.

    Args:
        python: the interpreter, a path or a name on PATH.
        environ: its environment variables.
        timeout: seconds that importing everything may take.

    Raises:
        UserError: it does not exist, or is no Python.
    """
    program = shutil.which(python, path=environ.get("PATH"))
    if program is None:
        raise _no_python(python, "is no program that can be run")
    try:
        (outcome,), hung = run_together([program, str(PROBE)], [environ], timeout)
    except OSError as error:
        raise _no_python(python, f"could not be run ({error.strerror or error})") from None
    facts = _facts(outcome.out)
    if "executable" not in facts:
        last = (outcome.err.strip().splitlines() or ["it said nothing"])[-1]
        reason = f"no answer within {timeout:g} seconds" if hung else last[:200]
        raise _no_python(python, f"did not answer as a Python does ({reason})")
    if hung and not facts.get("torch"):
        facts["torch_error"] = f"it was not done after {timeout:g} seconds."
    elif hung and facts.get("perforatedai_error"):
        facts["perforatedai_error"] = f"it was not done after {timeout:g} seconds."
    facts["gpus"] = tuple(Gpu(**_tuples(gpu)) for gpu in facts.get("gpus", ()))
    return Interpreter(**_tuples(facts))


def _no_python(python: str, what: str) -> UserError:
    return UserError(
        Problem(f"--python {python}", 0, 0, "RF017", f"{what}. Name the Python that trains, 3.9 or newer.")
    )


def try_group(
    python: str, ranks: int, backend: str, environ: Mapping[str, str], timeout: float, script: Path = RANKS
) -> Group:
    """Form a process group, and return what its processes said.

    Args:
        python: the path of the interpreter.
        ranks: how many processes there are.
        backend: "nccl", with a GPU for each process, or "gloo", on the CPU.
        environ: the environment variables; those of torchrun are set for each process.
        timeout: seconds after which all are killed.
        script: what each process runs.

    Raises:
        OSError: the interpreter cannot be started, or there is no place for temporary files.
    """
    # as torchrun does; a variable of the user's own counts
    common = {"OMP_NUM_THREADS": "1", **environ, "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    common |= {"DOCTOR_BACKEND": backend, "DOCTOR_TIMEOUT": str(timeout)}
    environs = [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]
    outcomes, hung = run_together([python, str(script)], environs, timeout)
    said = []
    for outcome in outcomes:
        facts = _facts(outcome.out)
        if outcome.status and "error" not in facts:
            facts["error"] = " ".join(outcome.err.strip().splitlines()[-1:])[:400]
        said.append(Rank(**_tuples(facts), status=outcome.status, ended=outcome.ended))
    return Group(backend, tuple(said), timeout if hung else None)


def _facts(out: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for line in out.splitlines():
        try:
            said = json.loads(line)
        except ValueError:  # cut off where the process ended, or no probe's answer
            break
        if isinstance(said, dict):
            facts |= said
    return facts


def _tuples(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts with tuples for JSON's lists, so that they cannot change."""
    return {name: _tuple(value) for name, value in facts.items()}


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
