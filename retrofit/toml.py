"""Read TOML files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from retrofit.errors import Problem, UserError, shown_path
from retrofit.reading import read_file


def read_toml(path: Path, code: str) -> dict[str, Any]:
    """Return a TOML file's content.

    Args:
        path: the file.
        code: the code of the problem where it cannot be read.

    Raises:
        UserError: it cannot be read, or is no valid TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(read_file(path).decode())
    except RecursionError:
        message = "is nested too deeply to be read."
    except OSError as error:
        message = f"cannot be read: {error.strerror}."
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        message = f"is no valid TOML file: {error}"
    raise UserError(Problem(shown_path(path), 0, 0, code, message))
