"""Python imports this file in every process of a verified training, because its folder comes first on PYTHONPATH.

It makes the package `inside`, which lies around it, importable under a name of its own, since the training's
interpreter need not have retrofit, and then lets a `sitecustomize` of the environment's own run as well.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _load(name: str, folder: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != _HERE]

if "RETROFIT_VERIFY" in os.environ:
    _load("_retrofit_inside", _HERE.parent)
    sys.modules["_retrofit_inside"].start(_load)

_own = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
if _own is not None and _own.loader is not None:
    _own.loader.exec_module(importlib.util.module_from_spec(_own))
