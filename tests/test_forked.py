"""What a script finds and leaves in a fork of tests/forked is what it finds and leaves in a plain Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked import forked_python

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="forks are not used there")

#: Tells what there is to find, but for what is meant to differ: the program's name and the process's number.
FINDS = """
import json, os, sys
print(json.dumps({
    "path": sys.path, "arguments": sys.argv, "early": os.environ.get("EARLY"), "name": __name__,
    "file": globals().get("__file__"), "main": sys.modules["__main__"].__dict__ is globals(), "folder": os.getcwd(),
    "environment": dict(os.environ), "parent": os.getppid(),
    "bytecode": sys.dont_write_bytecode, "input": sys.stdin.read(), "open": sorted(os.listdir("/dev/fd")),
    "streams": [(s.line_buffering, s.write_through, s.encoding, s.isatty()) for s in (sys.stdout, sys.stderr)],
    "signals": [str(signal) for signal in map(__import__("signal").getsignal, (2, 10, 15, 17))],
}))
"""
#: Without what Python reads there.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


@pytest.fixture(scope="module")
def forked() -> Iterator[str]:
    with forked_python(modules=["tempfile"]) as program:
        yield program


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["tell.py", "--a", "b c"], {}),
        (["./tell.py"], {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}),
        (["-u", "tell.py", "-m"], {"PYTHONPATH": "early"}),
        (["-m", "tell", "", "$"], {"PYTHONPATH": "early:late", "\udcff": "\udcfe"}),
        (["-c", FINDS, "-c"], {}),
    ],
    ids=["script", "unbuffered by environment", "unbuffered", "module", "command"],
)
def test_finds_the_same(arguments: list[str], environment: dict[str, str], forked: str, tmp_path: Path) -> None:
    (tmp_path / "tell.py").write_text(FINDS)
    (tmp_path / "early").mkdir()
    early = "import os, sys; os.environ['EARLY'] = f'{sys.argv} {sys.path}'"
    (tmp_path / "early" / "sitecustomize.py").write_text(early)
    found = [
        json.loads(
            subprocess.run(
                [program, *arguments], cwd=tmp_path, env={**ENVIRONMENT, **environment}, input="é\n",
                capture_output=True, text=True, check=True,
            ).stdout
        )
        for program in (sys.executable, forked)
    ]  # fmt: skip
    assert found[1] == found[0]


@pytest.mark.parametrize(
    "text",
    [
        "print('done', flush=False)",
        "import sys; sys.exit(300)",
        "import sys; sys.exit('words')",
        "def f():\n    raise ValueError('words')\nf()",
        "f(",
        "raise KeyboardInterrupt",
        "import os; print('lost'); os._exit(7)",
        "import os; os.kill(os.getpid(), 9)",
        "import atexit; atexit.register(print, 'late'); raise SystemExit",
        "import threading; wait = threading.main_thread().join\n"
        "threading.Thread(target=lambda: (wait(), print('late'))).start(); print('early')",
        "import sys; sys.excepthook = lambda *error: print(error[0]); 1 / 0",
        "import os, subprocess, sys; code = 'import os; print(os.getppid())'\n"
        "print(int(subprocess.check_output([sys.executable, '-c', code])) == os.getpid())",
        "import os; own = os.getpid()\nif os.fork() == 0: print(os.getppid() == own)\nelse: os.wait()",
        "import atexit, sys; atexit.register(lambda: print(sys.last_type, sys.last_value)); 1 / 0",
    ],
)
def test_ends_the_same(text: str, forked: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(text)
    ends = []
    for program in (sys.executable, forked):
        command = [program, "script.py"]
        end = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        ends.append((end.returncode, end.stdout, end.stderr))
    assert ends[1] == ends[0]


def test_starts_processes_that_inherit_descriptors(forked: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    with context.Pool(2) as pool:\n"
        "        print(pool.map(abs, [-1, 2]), context.Value('i', 3).value)\n"
    )
    end = subprocess.run([forked, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (end.returncode, end.stdout, end.stderr) == (0, "[1, 2] 3\n", "")


WAITS = "import signal\ntry:\n    print('waits', flush=True)\n    signal.pause()\nfinally:\n    print('stopped')"


@pytest.mark.parametrize(
    ("sent", "code", "output"),
    [
        (signal.SIGINT, WAITS, "stopped\n"),
        (signal.SIGTERM, WAITS, ""),
        (signal.SIGTERM, "import signal; signal.signal(15, lambda *_: exit(5))\n" + WAITS, "stopped\n"),
        (signal.SIGKILL, WAITS, ""),
    ],
    ids=["interrupted", "terminated", "handled", "killed"],
)
def test_signals_reach_it(sent: signal.Signals, code: str, output: str, forked: str) -> None:
    ends = []
    for program in (sys.executable, forked):
        with subprocess.Popen(
            [program, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "waits\n"
            process.send_signal(sent)
            ends.append((process.stdout.read(), process.wait()))  # read to its end: nothing holds it open any more
    assert ends[1] == ends[0]
    assert ends[0][0] == output


def test_nothing_is_left_when_it_is_needed_no_more() -> None:
    with forked_python(modules=[]) as program:
        process = subprocess.Popen([program, "-c", WAITS], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
    assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == 70
    assert not Path(program).exists()


#: Asks in one function for the name of the one that calls it.
ASKS = """
from torch.distributed.elastic.rendezvous import dynamic_rendezvous

def record():
    return dynamic_rendezvous.get_method_name()

def meet():
    return record()

torchs_own = meet()
import rendezvous_names
print(torchs_own, meet(), dynamic_rendezvous.get_method_name is rendezvous_names._method_name)
"""


@pytest.mark.real
def test_what_an_agent_of_torchrun_does_has_the_name_that_torch_gives_it() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent / "forked")}
    told = subprocess.run([sys.executable, "-c", ASKS], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    assert told.stdout == "meet meet True\n"


#: Draws a graph, as the library does, twice.
DRAWS = """
import os
import undrawn_graphs
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

def draw(name):
    figure = plt.figure()
    plt.subplot(2, 2, 1).plot([1, 2])
    figure.tight_layout()
    plt.savefig(name)
    return figure

print(type(draw("drawn.png")) is Figure)
os.environ["UNDRAWN_GRAPHS"] = "1"
print(type(draw("undrawn.png")) is Figure)
"""


@pytest.mark.real
def test_graphs_are_empty_files_only_where_that_is_asked(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent / "forked"), "MPLBACKEND": "agg"}
    environment.pop("UNDRAWN_GRAPHS", None)
    command = [sys.executable, "-c", DRAWS]
    told = subprocess.run(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
    assert told.stdout == "True\nFalse\n"
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "undrawn.png").read_bytes() == b""
