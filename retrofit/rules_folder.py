"""Where the rules are, and what is known of them without reading each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from retrofit.toml import read_toml


def rules_folder() -> Path:
    """Return the folder `rules/`, inside the installed package or beside it in a checkout."""
    here = Path(__file__).resolve().parent
    installed = here / "_rules"
    return installed if installed.is_dir() else here.parent / "rules"


@cache
def known_rules() -> dict[str, str]:
    """Return the codes of all rules with their names, as the names of their files tell them."""
    found = {}
    for path in sorted(rules_folder().glob("*/*.toml")):
        code, _, name = path.stem.partition("-")
        if name:
            found[code] = name
    return found


def proven_versions() -> Mapping[str, tuple[str, ...]]:
    """Return the versions of packages that the recipe was proven with, by the packages' names, the best one last."""
    shared = read_toml(rules_folder() / "perforatedai" / "recipe.toml", "RF007")
    return {package: tuple(versions) for package, versions in shared["proven"].items()}
