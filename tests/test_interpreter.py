"""Which Python trains, and what is installed there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from retrofit.errors import UserError
from retrofit.interpreter import find_python, look_at


def test_the_python_that_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("python", "other"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert find_python(None) == sys.executable
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert find_python(None) == str(tmp_path / "python")
    assert find_python("other") == str(tmp_path / "other")
    with pytest.raises(UserError, match="--python nothing: RF017 is no program"):
        find_python("nothing")


def test_a_program_that_is_no_python_says_so(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no >&2\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match="did not answer as a Python does \\(no\\)"):
        look_at(str(program))


def test_what_is_installed() -> None:
    found = look_at(sys.executable)
    assert found.version == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert found.path == sys.executable
