"""What a project's files of settings say of the classes of which the script makes objects, as hydra reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from retrofit.late_imports import data_files

#: What a file holds that may make objects so, for the files of settings of most projects are not even looked for.
MAY_MAKE_CONFIGURED = re.compile(rb"\bhydra\b")
#: A key of a YAML file with its value, as far as one stands beside it.
_KEY = re.compile(r"^( *)([\w.]+):(?:[ \t]+([\"']?)([^\s\"'#]+)\3)?[ \t]*(?:#.*)?\r?$", re.MULTILINE)
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")


class Target(NamedTuple):
    """A class, or a function, that a file of settings names.

    Attributes:
        file: the file's name, without its ending.
        key: the key under which the settings stand, for those of a whole file the folder's.
        name: its full name.
    """

    file: str
    key: str
    name: str


def targets(root: Path) -> Iterator[Target]:
    """Yield what a project's YAML files name as `_target_`, but for what is only prepared to be made.

    Args:
        root: the project's folder.
    """
    for path, data in data_files(root, (".yaml", ".yml")):
        if b"_target_" not in data:
            continue
        around = [(-1, path.parent.name)]  # the keys that hold what is read, with their indentation
        values: dict[tuple[str, ...], str] = {}
        for indentation, key, _, value in _KEY.findall(data.decode(errors="replace")):
            while around[-1][0] >= len(indentation):
                around.pop()
            around.append((len(indentation), key))
            values[tuple(name for _, name in around)] = value
        for (*holders, key), value in values.items():
            if key == "_target_" and (*holders, "_partial_") not in values:
                reference = _REFERENCE.fullmatch(value)
                named = (path.parent.name, *reference[1].split(".")) if reference else ()
                yield Target(path.stem, holders[-1], values.get(named, value))
