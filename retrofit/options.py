"""The user's choices: the command line's, else those of `[tool.retrofit]` in pyproject.toml, else the defaults."""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from retrofit.errors import Problem, UserError, shown_path
from retrofit.reading import DEFAULT_MEGABYTES
from retrofit.toml import read_toml


@dataclass(frozen=True)
class Options:
    """What the user chose for a script.

    Attributes:
        nproc_per_node: processes on one machine, a number or "gpu" for one on each visible GPU.
        gpus: GPU numbers such as "0,1", exported as CUDA_VISIBLE_DEVICES; "" leaves that to the environment.
        launcher: "torchrun", "launch", "python", or "" to choose by the script.
        save_name: the folder of checkpoints; "" for the script's own, or else PAI_ and the script's name.
        metric: the expression of the validation score, "" to find it.
        mode: "max" or "min", "" to find it.
        model: the variable of the model that gets dendrites, where several are wrapped.
        output_dimensions: `LAYER=-1,-1,0` words on layers whose neurons are in an unusual dimension.
        inline: whether the helper's functions go into the script itself.
        max_file_size: how many megabytes a file may have to be looked into.
        commanded: the names of the choices that were made on the command line.
        configured: the names of those that were made in pyproject.toml.
    """

    nproc_per_node: str = "gpu"
    gpus: str = ""
    launcher: str = ""
    save_name: str = ""
    metric: str = ""
    mode: str = ""
    model: str = ""
    output_dimensions: tuple[str, ...] = ()
    inline: bool = False
    max_file_size: float = DEFAULT_MEGABYTES
    commanded: frozenset[str] = frozenset()
    configured: frozenset[str] = frozenset()

    def origin(self, name: str) -> str:
        """Return where a choice was made, "" where it is the default."""
        if name in self.commanded:
            return f"--{name.replace('_', '-')}"
        return "pyproject.toml" if name in self.configured else ""

    def for_rules(self) -> dict[str, object]:
        """Return the choices as rules see them: the output dimensions as the code of a dict."""
        dimensions = dict(_dimensions(entry) for entry in self.output_dimensions)
        return {
            "save_name": self.save_name,
            "inline": self.inline,
            "launcher": self.launcher,
            "output_dimensions": repr(dimensions) if dimensions else "",
        }


_KEYS = {f.name.replace("_", "-"): f.name for f in fields(Options) if f.name not in ("commanded", "configured")}
#: The keys of `retrofit check`, which retrofit/check/settings.py reads.
CHECK_KEYS = ("select", "ignore", "per-file-ignores", "severity", "exclude")
_PATTERNS = {
    "nproc_per_node": (r"gpu|[1-9]\d*", "a number of processes, or gpu"),
    "gpus": (r"|[\w-]+(,[\w-]+)*", "GPU numbers such as 0,1"),
    "launcher": (r"|torchrun|launch|python", "torchrun, launch or python"),
    "save_name": (r"|[A-Za-z0-9_-][A-Za-z0-9_.-]*", "letters, digits, `_`, `.` and `-` only"),
    "mode": (r"|max|min", "max or min"),
    "model": (r"|([^:]+:)?[A-Za-z_][\w.]*", "a variable's name, perhaps with FUNCTION., CLASS. or FILE: before it"),
}


def load_options(script: Path, chosen: Mapping[str, Any]) -> Options:
    """Return the options for a script.

    Args:
        script: the entry script; the nearest pyproject.toml above it counts.
        chosen: what was given on the command line, by attribute name; None and empty values were not given.

    Raises:
        UserError: an unknown key or an impossible value.
    """
    given = {name: value for name, value in chosen.items() if value not in (None, "", (), False)}
    pyproject, written = project_table(script)
    table = {_KEYS[key]: _typed(key, value, pyproject) for key, value in written.items() if key in _KEYS}
    options = replace(
        Options(), **{**table, **given}, commanded=frozenset(given), configured=frozenset(table.keys() - given.keys())
    )
    for name, value in {**table, **given}.items():
        where = (
            f"--{name.replace('_', '-')}" if name in given else f"{shown_path(pyproject or script)}: [tool.retrofit]"
        )
        problem = _fault(name, value)
        if problem:
            raise UserError(Problem(where, 0, 0, "RF006", problem))
    return replace(options, metric=options.metric.strip())


def _fault(name: str, value: object) -> str:
    """Return what is wrong with a choice, "" where nothing is."""
    if name in _PATTERNS:
        pattern, wanted = _PATTERNS[name]
        if not re.fullmatch(pattern, str(value), re.ASCII):
            return f"{name.replace('_', '-')} is {value!r}; it must be {wanted}."
    if name == "metric":
        return _expression_fault(str(value).strip())
    if name == "output_dimensions" and isinstance(value, tuple):
        layers = [entry.partition("=")[0].strip() for entry in value]
        if len(set(layers)) < len(layers):
            return "a layer is named twice."
        return next((fault for entry in value if (fault := _dimensions_fault(entry))), "")
    return ""


def project_table(script: Path) -> tuple[Path | None, dict[str, Any]]:
    """Return the nearest pyproject.toml above a file, and its `[tool.retrofit]` as it stands there.

    Raises:
        UserError: it is no valid TOML, or has an unknown key.
    """
    for folder in Path(os.path.realpath(script)).parents:
        path = folder / "pyproject.toml"
        if os.path.isfile(path):
            break
    else:
        return None, {}
    data = read_toml(path, "RF006")
    tool = data.get("tool", {})
    table = tool.get("retrofit", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UserError(Problem(shown_path(path), 0, 0, "RF006", "[tool.retrofit] must be a table of keys."))
    for key in table:
        if key not in _KEYS and key not in CHECK_KEYS:
            near = difflib.get_close_matches(key, [*_KEYS, *CHECK_KEYS], 1)
            hint = f" Did you mean {near[0]}?" if near else f" Known are {', '.join([*_KEYS, *CHECK_KEYS])}."
            raise UserError(
                Problem(shown_path(path), 0, 0, "RF006", f"[tool.retrofit] has the unknown key {key!r}.{hint}")
            )
    return path, table


def megabytes(path: Path | None, value: object) -> float:
    """Return the number of megabytes that a project's files may have by its `[tool.retrofit]`.

    Raises:
        UserError: it is no number.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return float(value)
    message = f"[tool.retrofit] max-file-size is {value!r}; it must be a number of megabytes."
    raise UserError(Problem(shown_path(path or Path()), 0, 0, "RF006", message))


def _typed(key: str, value: object, path: Path | None) -> object:
    if key == "inline" and isinstance(value, bool):
        return value
    if key == "max-file-size":
        return megabytes(path, value)
    if key == "output-dimensions" and isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return tuple(value)
    if key not in ("inline", "output-dimensions") and isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value)
    wanted = {"inline": "true or false", "output-dimensions": 'a list such as ["fc=-1,-1,0"]'}.get(key, "a string")
    raise UserError(
        Problem(shown_path(path or Path()), 0, 0, "RF006", f"[tool.retrofit] {key} is {value!r}; it must be {wanted}.")
    )


def _dimensions(entry: str) -> tuple[str, list[int]]:
    layer, _, numbers = entry.partition("=")
    return layer.strip(), [int(number) for number in numbers.split(",")]


def _dimensions_fault(entry: str) -> str:
    numbers = entry.partition("=")[2].replace(" ", "").split(",")
    if entry.partition("=")[0].strip() and sorted(numbers) == [*["-1"] * (len(numbers) - 1), "0"]:
        return ""
    return (
        f"{entry!r} is not LAYER=NUMBERS with one 0 where the layer's neurons are and -1 elsewhere, "
        "such as encoder.fc=-1,-1,0."
    )


def _expression_fault(code: str) -> str:
    try:
        tree = ast.parse(code, mode="eval")
    except SyntaxError:
        tree = None
    if tree is None or isinstance(tree.body, (ast.Tuple, ast.Starred, ast.NamedExpr)):
        return f"{code!r} is no expression of one value. Give one such as val_acc or stats['acc1']."
    return ""
