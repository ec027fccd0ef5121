"""`retrofit report`: what a training has come to, read from the folder that it saves in."""

from __future__ import annotations

import csv
import json
import re
import runpy
from functools import cache
from pathlib import Path
from typing import Any

from retrofit.errors import Problem, UserError, shown_path
from retrofit.reading import read_file
from retrofit.rules_folder import rules_folder


class Outcome:
    """What a training has come to, so far or at its end.

    Attributes:
        facts: as the helper writes them into rounds.json; see its logbook.py.
        save: the folder that the training saves in.

    Raises:
        UserError: the folder cannot be read, or has no record of a training.
    """

    def __init__(self, save: Path) -> None:
        self.save = save
        if not save.is_dir():
            what = "is no folder" if save.exists() else "is not there"
            raise self._problem("RF001", f"{what}. Give the folder that the training saves in, such as PAI_train.")
        try:
            self.facts = self._read()
            self.facts |= {**_helper()["_pai_totals"](self.facts), "complete": bool(self.facts.get("final"))}
            self.text()
        except OSError as error:
            raise self._problem("RF001", f"cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError, csv.Error) as error:
            message = f"has a record of a training that cannot be understood: {type(error).__name__}: {error}."
            raise self._problem("RF022", message) from None

    def _problem(self, code: str, message: str) -> UserError:
        return UserError(Problem(shown_path(self.save), 0, 0, code, message))

    def _read(self) -> dict[str, Any]:
        path = self.save / "rounds.json"
        facts: dict[str, Any] = json.loads(read_file(path).decode()) if path.exists() else {}
        if "structures" not in facts:
            facts |= self._read_tables()
        if not facts["structures"]:
            below = sorted(path.parent.name for path in self.save.glob("*/rounds.json"))
            hint = f" Did you mean {shown_path(self.save / below[0])}?" if below else ""
            raise self._problem(
                "RF022", f"has no record of a training, which begins with the first validation score.{hint}"
            )
        return facts

    def _read_tables(self) -> dict[str, Any]:
        """Return what the library's own tables tell of a training whose helper has written no more."""
        name = self.save.resolve().name
        complete = (self.save / ".training_complete").exists()
        kept = self._structures(f"{name}_best_arch_scores.csv")
        dropped = [
            {**self._structures(path.name)[-1], "kept": False}
            for path in sorted(self.save.glob(f"{name}_*_noImprove_lr_*_best_arch_scores.csv"))
        ]
        final: dict[str, Any] = {}
        for last in kept[-1:]:
            if complete:
                final = {"dendrites": last["dendrites"], "parameters": last["parameters"], "score": last["best"]}
            elif all(one["dendrites"] <= last["dendrites"] for one in dropped):
                last["kept"] = None  # under way
        settings = self.save / f"{name}_config.json"
        return {
            "maximizing": json.loads(read_file(settings).decode())["maximizing_score"] if settings.exists() else True,
            "capacity_test": name.endswith("_capacity_test"),
            "structures": sorted([*dropped, *kept], key=lambda one: (one["dendrites"], one["kept"] is not False)),
            **({"final": final} if final else {}),
        }

    def _structures(self, name: str) -> list[dict[str, Any]]:
        """Return what the model was with each number of dendrites, from none on, by a table of the library's."""
        path = self.save / name
        rows = csv.DictReader(read_file(path).decode().splitlines()) if path.exists() else ()
        unknown = dict.fromkeys(("round", "epochs", "seconds"))
        return [
            {"dendrites": number, "parameters": int(row["Param Counts"]), "best": float(row["Max Valid Scores"])}
            | {"kept": True, **unknown}
            for number, row in enumerate(rows)
        ]

    def text(self) -> str:
        """Return it for people, as the helper says it at the end of training."""
        said: str = _helper()["_pai_outcome"](self.facts, shown_path(self.save))
        return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", lambda match: ascii(match[0])[1:-1], said)

    def to_json(self) -> str:
        """Return its facts for programs."""
        return json.dumps(self.facts, indent=2)


@cache
def _helper() -> dict[str, Any]:
    """Return the functions by which the helper says it, one file that imports nothing of torch."""
    return runpy.run_path(str(rules_folder() / "perforatedai" / "pai_distributed" / "outcome.py"))
