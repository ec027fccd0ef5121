"""Judges what is installed: Python, torch, perforatedai and what it needs, and the launcher's programs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from retrofit.doctor.facts import Interpreter, Machine
from retrofit.doctor.finding import Finding
from retrofit.wording import listed

#: Which Pythons perforatedai 3.2.9 has wheels for; there is no source distribution to fall back on.
WHEELS = {
    ("linux", "x86_64"): ((3, 9), (3, 12)),
    ("darwin", "x86_64"): ((3, 11), (3, 11)),
    ("darwin", "arm64"): ((3, 11), (3, 11)),
    ("win32", "AMD64"): ((3, 11), (3, 11)),
}
#: The oldest torch that has all that the written helper calls.
OLDEST_TORCH = (2, 4)


def judge_software(facts: Interpreter, machine: Machine, proven: Mapping[str, tuple[str, ...]]) -> list[Finding]:
    """Judge what is installed.

    Args:
        facts: the interpreter that trains.
        machine: this machine.
        proven: the versions of packages that the recipe was proven with, by their names, the best one last.
    """
    pip = f"{shlex.quote(facts.executable)} -m pip install"
    return [
        _python(facts),
        _torch(facts, pip, proven.get("torch", ())),
        _perforatedai(facts, pip, proven.get("perforatedai", ())),
        _packages(facts, pip),
        _bash(machine),
        _torchrun(facts, machine),
    ]


def _python(facts: Interpreter) -> Finding:
    version = ".".join(map(str, facts.python))
    what = f"Python {version} ({facts.executable})."
    if facts.perforatedai is not None:
        return Finding("Python", "ok", what)
    system = f"{facts.platform} {facts.machine}"
    wheels = WHEELS.get((facts.platform, facts.machine))
    if wheels is None:
        return Finding(
            "Python",
            "problem",
            f"{what} perforatedai is not installed, and has no wheel for {system}.",
            "Train on Linux x86_64 with a Python from 3.9 to 3.12.",
        )
    oldest, newest = (f"{major}.{minor}" for major, minor in wheels)
    if wheels[0] <= facts.python[:2] <= wheels[1]:
        return Finding("Python", "ok", what)
    known = oldest if oldest == newest else f"{oldest} to {newest}"
    return Finding(
        "Python",
        "problem",
        f"{what} perforatedai is not installed, and on {system} has wheels for Python {known} only.",
        f"python{newest} -m venv .venv && . .venv/bin/activate",
    )


def _torch(facts: Interpreter, pip: str, proven: tuple[str, ...]) -> Finding:
    if facts.torch is None and not facts.torch_error:
        return Finding("torch", "problem", "torch is not installed.", f"{pip} torch")
    if facts.torch is None:
        return Finding(
            "torch",
            "problem",
            f"torch cannot be imported: {facts.torch_error}",
            f"{pip} --force-reinstall torch",
        )
    build = f"CUDA {facts.cuda}" if facts.cuda else f"ROCm {facts.hip}" if facts.hip else "the CPU only"
    what = f"torch {facts.torch}, built for {build}."
    version = re.match(r"(\d+)\.(\d+)", facts.torch)
    if version and (int(version[1]), int(version[2])) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        return Finding("torch", "problem", f"{what} retrofit needs {oldest} or newer.", f"{pip} --upgrade torch")
    if not facts.distributed:
        return Finding("torch", "problem", f"{what} It lacks torch.distributed.", f"{pip} --force-reinstall torch")
    if proven:
        same = facts.torch.partition("+")[0] in proven
        what += f" The recipe was proven with {'it' if same else listed(proven)}."
    return Finding("torch", "ok", what)


def _perforatedai(facts: Interpreter, pip: str, proven: tuple[str, ...]) -> Finding:
    topic = "perforatedai"
    # torchvision, which it asks for but does not need, has a build for few versions of torch only
    install = f"{pip} --no-deps perforatedai" + (f"=={proven[-1]}" if proven else "")
    if facts.perforatedai is None:
        return Finding(topic, "problem", "perforatedai is not installed.", install)
    what = f"perforatedai {facts.perforatedai}."
    # what is missing is said elsewhere
    if facts.perforatedai_error and not facts.missing and facts.torch is not None:
        return Finding(topic, "problem", f"{what} It cannot be imported: {facts.perforatedai_error}", install)
    if facts.perforatedai not in proven:
        return Finding(
            topic, "warning", f"{what} The recipe was proven with {listed(proven) if proven else 'none'} only.", install
        )
    return Finding(topic, "ok", f"{what} The recipe was proven with it.")


def _packages(facts: Interpreter, pip: str) -> Finding:
    if not facts.missing:
        return Finding("packages", "ok", "All packages that perforatedai needs are installed.")
    return Finding(
        "packages",
        "problem",
        f"perforatedai needs packages that are not installed: {', '.join(facts.missing)}.",
        f"{pip} {' '.join(facts.missing)}",
    )


def _bash(machine: Machine) -> Finding:
    if machine.bash:
        return Finding("bash", "ok", f"bash is {machine.bash}.")
    return Finding(
        "bash",
        "problem",
        "There is no bash on PATH; train_distributed.sh needs it.",
        "Install bash with the system's package manager; on Windows train in WSL 2.",
    )


def _torchrun(facts: Interpreter, machine: Machine) -> Finding:
    topic = "torchrun"
    chosen = machine.environ.get("PYTHON")
    if chosen:
        return Finding(topic, "ok", f"PYTHON={chosen} is set, so that the launcher runs torchrun as its module.")
    cure = (
        f"PYTHON={shlex.quote(facts.executable)} ./train_distributed.sh, or activate the environment that has PyTorch."
    )
    if machine.torchrun is None:
        return Finding(topic, "problem", "There is no torchrun on PATH, where train_distributed.sh looks for it.", cure)
    what = f"torchrun is {machine.torchrun}."
    if machine.torchrun_python and _folder(machine.torchrun_python) != _folder(facts.executable):
        return Finding(
            topic,
            "warning",
            f"{what} It runs {machine.torchrun_python}, another Python than the one examined here.",
            cure,
        )
    return Finding(topic, "ok", what)


def _folder(program: str) -> str:
    # the program itself may be a link out of a virtual environment, which its folder is not
    return os.path.realpath(Path(program).parent)
