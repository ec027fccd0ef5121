"""The user's choices: the command line's, else those of `[tool.retrofit]` in pyproject.toml, else the defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from retrofit.errors import Problem, UserError, shown_path
from retrofit.keys import KEYS, keys_of, named
from retrofit.launch import SYSTEMS
from retrofit.reading import DEFAULT_MEGABYTES
from retrofit.toml import read_toml
from retrofit.wording import did_you_mean


@dataclass(frozen=True)
class Options:
    """What the user chose for a script.

    Attributes:
        nproc_per_node: processes on one machine, a number or "gpu" for one on each visible GPU.
        gpus: GPU numbers such as "0,1", exported as CUDA_VISIBLE_DEVICES; "" leaves that to the environment.
        nodes: machines that a batch system's job is for.
        launcher: "torchrun", "launch", "python", a batch system such as "slurm", or "" to choose by the script.
        save_name: the folder of checkpoints; "" for the script's own, or else PAI_ and the script's name.
        metric: the expression of the validation score, "" to find it.
        mode: "max" or "min", "" to find it.
        model: the variable of the model that gets dendrites, where several are wrapped.
        optimizer: the variable of the optimizer that the library is told of, where several train the model.
        module: the modules that the script imports by a name made at run time.
        output_dimensions: `LAYER=-1,-1,0` words on layers whose neurons are in an unusual dimension.
        inline: whether the helper's functions go into the script itself.
        in_process: whether a DataParallel model is restructured while its process goes on, without a restart.
        data_parallel: whether a model that has dendrites and no wrapper gets a DataParallel.
        rounds: when a structure is trained enough: "history", when its score rises no more; "planned", at the end that
            the script has planned; "", there if the learning rate moves until then, else by the score.
        settings: (name, code of the value) of the library's settings that the script is to make.
        knowledge: files that say what further libraries do.
        max_file_size: how many megabytes a file may have to be looked into, which no project decides for its user.
        commanded: the names of the choices that were made on the command line.
        configured: the names of those that were made in pyproject.toml.
        launched: the names of those that a launch script had made which ours takes the place of.
    """

    nproc_per_node: str = "gpu"
    gpus: str = ""
    nodes: int = 1
    launcher: str = ""
    save_name: str = ""
    metric: str = ""
    mode: str = ""
    model: str = ""
    optimizer: str = ""
    module: tuple[str, ...] = ()
    output_dimensions: tuple[str, ...] = ()
    inline: bool = False
    in_process: bool = False
    data_parallel: bool = False
    rounds: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    knowledge: tuple[Path, ...] = ()
    max_file_size: float = DEFAULT_MEGABYTES
    commanded: frozenset[str] = frozenset()
    configured: frozenset[str] = frozenset()
    launched: frozenset[str] = frozenset()

    @property
    def program(self) -> str:
        """What starts the training processes; "" to choose by the script."""
        return "" if self.launcher in SYSTEMS else self.launcher

    def origin(self, name: str) -> str:
        """Return where a choice was made, "" where it is the default."""
        if name in self.commanded:
            return f"--{name.replace('_', '-')}"
        if name in self.launched:
            return "the launch script that was there"
        return "pyproject.toml" if name in self.configured else ""

    def for_rules(self) -> dict[str, object]:
        """Return the choices as rules see them: the output dimensions as the code of a dict."""
        dimensions = dict(_dimensions(entry) for entry in self.output_dimensions)
        return {
            "save_name": self.save_name,
            "inline": self.inline,
            "in_process": self.in_process,
            "data_parallel": self.data_parallel,
            "optimizer": self.optimizer,
            "rounds": self.rounds,
            "launcher": self.program,
            "settings": self.settings,
            "output_dimensions": repr(dimensions) if dimensions else "",
        }


_FIELDS = frozenset(f.name for f in fields(Options)) - {"commanded", "configured", "launched", "max_file_size"}


@dataclass(frozen=True)
class Choices:
    """The choices for one call of a command, each by its name in Python.

    Attributes:
        commanded: those of the command line.
        configured: those of pyproject.toml that these leave open.
        defaults: what counts where nobody chose.
    """

    commanded: Mapping[str, Any]
    configured: Mapping[str, Any]
    defaults: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return next(c[name] for c in (self.commanded, self.configured, self.defaults) if name in c)


def load_choices(near: Path, chosen: Mapping[str, Any], command: str = "", project: bool = True) -> Choices:
    """Return the choices for a call.

    Args:
        near: a file; the nearest pyproject.toml above it counts.
        chosen: what was given on the command line, by the names in Python; None and empty values were not given.
        command: the command whose defaults count.
        project: whether pyproject.toml counts at all.

    Raises:
        UserError: an unknown key or an impossible value.
    """
    configured = {name.replace("-", "_"): value for name, value in project_table(near)[1].items()} if project else {}
    commanded = {name: _read(name, value) for name, value in chosen.items() if value not in (None, "", ())}
    left = {name: value for name, value in configured.items() if name not in commanded}
    return Choices(commanded, left, {key.attribute: key.default for key in keys_of(command)})


def _read(name: str, value: object) -> object:
    key = named(name.replace("_", "-"))
    assert key is not None
    try:
        return key.read(value)
    except ValueError as error:
        raise UserError(Problem(f"--{key.name}", 0, 0, "RF006", str(error))) from None


def load_options(script: Path, chosen: Mapping[str, Any], max_file_size: float = DEFAULT_MEGABYTES) -> Options:
    """Return the options for a script.

    Args:
        script: the entry script; the nearest pyproject.toml above it counts.
        chosen: what was given on the command line, by attribute name; None and empty values were not given.
        max_file_size: see `Options`.

    Raises:
        UserError: an unknown key or an impossible value.
    """
    choices = load_choices(script, chosen)
    commanded, configured = (
        {name: value for name, value in given.items() if name in _FIELDS}
        for given in (choices.commanded, choices.configured)
    )
    return Options(
        **configured,
        **commanded,
        max_file_size=max_file_size,
        commanded=frozenset(commanded),
        configured=frozenset(configured),
    )


def project_table(near: Path) -> tuple[Path | None, dict[str, Any]]:
    """Return the nearest pyproject.toml above a file, and the values of its `[tool.retrofit]` by their keys.

    An empty string stands for no choice.

    Raises:
        UserError: it is no valid TOML, or has an unknown key or an impossible value.
    """
    for folder in Path(os.path.realpath(near)).parents:
        path = folder / "pyproject.toml"
        if os.path.isfile(path):
            break
    else:
        return None, {}
    data = read_toml(path, "RF006")
    tool = data.get("tool", {})
    table = tool.get("retrofit", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise _fault(path, "must be a table of keys.")
    found = {}
    for name, value in table.items():
        key = named(name)
        if key is None:
            raise _fault(path, f"has the unknown key {name!r}.{_hint(name)}")
        try:
            if value != "":
                found[name] = key.read(value, folder)
        except ValueError as error:
            raise _fault(path, str(error)) from None
    if found.get("quiet") and found.get("verbose"):
        raise _fault(path, "has both quiet and verbose.")
    return path, found


def _hint(name: str) -> str:
    known = list(dict.fromkeys(key.name for key in KEYS))
    return did_you_mean(name, known) or f" Known are {', '.join(known)}."


def _fault(path: Path, what: str) -> UserError:
    return UserError(Problem(shown_path(path), 0, 0, "RF006", f"[tool.retrofit] {what}"))


def _dimensions(entry: str) -> tuple[str, list[int]]:
    layer, _, numbers = entry.partition("=")
    return layer.strip(), [int(number) for number in numbers.split(",")]
