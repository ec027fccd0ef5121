"""The user's choices: the command line's, else those of `[tool.retrofit]` in pyproject.toml, else the defaults."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from retrofit.errors import Problem, UserError
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
        given: the names of the choices that the user made himself.
        pyproject: the file that some of them came from, None where none did.
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
    given: frozenset[str] = field(default=frozenset())
    pyproject: Path | None = None

    def for_rules(self) -> dict[str, object]:
        """Return the choices as rules see them: the output dimensions as the code of a dict."""
        dimensions = dict(_dimensions(entry) for entry in self.output_dimensions)
        return {
            "save_name": self.save_name,
            "inline": self.inline,
            "output_dimensions": repr(dimensions) if dimensions else "",
        }


_KEYS = {f.name.replace("_", "-"): f.name for f in fields(Options) if f.name not in ("given", "pyproject")}
_PATTERNS = {
    "nproc_per_node": (r"gpu|[1-9]\d*", "a number of processes, or gpu"),
    "gpus": (r"|[\w-]+(,[\w-]+)*", "GPU numbers such as 0,1"),
    "launcher": (r"|torchrun|launch|python", "torchrun, launch or python"),
    "save_name": (r"|[A-Za-z0-9_-][A-Za-z0-9_.-]*", "letters, digits, `_`, `.` and `-` only"),
    "mode": (r"|max|min", "max or min"),
    "model": (r"|[A-Za-z_][\w.]*", "a variable's name"),
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
    pyproject, table = _project_table(script)
    options = replace(
        Options(),
        **{**table, **given},
        given=frozenset({**table, **given}),
        pyproject=pyproject if table else None,
    )
    for name, (pattern, wanted) in _PATTERNS.items():
        value = getattr(options, name)
        if not re.fullmatch(pattern, value):
            where = f"--{name.replace('_', '-')}" if name in given else f"{pyproject}: [tool.retrofit]"
            raise UserError(
                Problem(where, 0, 0, "RF006", f"{name.replace('_', '-')} is {value!r}; it must be {wanted}.")
            )
    if options.metric:
        _check_expression(options.metric)
    for entry in options.output_dimensions:
        _dimensions(entry)
    return options


def _project_table(script: Path) -> tuple[Path | None, dict[str, Any]]:
    for folder in script.resolve().parents:
        path = folder / "pyproject.toml"
        if path.is_file():
            break
    else:
        return None, {}
    data = read_toml(path, "RF006")
    table = data.get("tool", {}).get("retrofit", {})
    found: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1)
            hint = f" Did you mean {near[0]}?" if near else f" Known are {', '.join(_KEYS)}."
            raise UserError(Problem(str(path), 0, 0, "RF006", f"[tool.retrofit] has the unknown key {key!r}.{hint}"))
        found[_KEYS[key]] = _typed(path, key, value)
    return path, found


def _typed(path: Path, key: str, value: object) -> object:
    if key == "inline" and isinstance(value, bool):
        return value
    if key == "output-dimensions" and isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return tuple(value)
    if key not in ("inline", "output-dimensions") and isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value)
    raise UserError(Problem(str(path), 0, 0, "RF006", f"[tool.retrofit] {key} cannot be {value!r}."))


def _dimensions(entry: str) -> tuple[str, list[int]]:
    layer, _, numbers = entry.partition("=")
    if not layer or not re.fullmatch(r"-?\d+(,-?\d+)*", numbers.replace(" ", "")) or "0" not in numbers.split(","):
        raise UserError(
            Problem(
                "--output-dimensions",
                0,
                0,
                "RF006",
                f"{entry!r} is not LAYER=NUMBERS with 0 where the layer's neurons are and -1 elsewhere, "
                "such as encoder.fc=-1,-1,0.",
            )
        )
    return layer, [int(number) for number in numbers.split(",")]


def _check_expression(code: str) -> None:
    try:
        compile(code, "--metric", "eval")
    except SyntaxError:
        raise UserError(
            Problem(
                "--metric",
                0,
                0,
                "RF006",
                f"{code!r} is no Python expression. Give one such as val_acc or stats['acc1'].",
            )
        ) from None
