"""Imports modules once, and forks for each client a process that runs as a Python started where the client was.

    python server.py SOCKET PROGRAM MODULE...

PROGRAM is what starts a client, for processes that start others. It prints a line when it is ready, and ends, with all
its forks, when its standard input does.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import site
import socket
import sys
import threading
import types
import weakref
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, BinaryIO, NoReturn, TextIO, cast

#: Where descriptors are put while others are closed; few processes have so many.
_APART = 512


class Request:
    """What a client was started for, with its descriptors."""

    def __init__(self, connection: socket.socket) -> None:
        length, self.received, _, _ = socket.recv_fds(connection, 8, 64)
        data, size = b"", int.from_bytes(length, "big")
        while len(data) < size and (more := connection.recv(size - len(data))):
            data += more
        self.complete = bool(length) and len(data) == size
        self.facts: dict[str, Any] = json.loads(data) if self.complete else {}


def wait_for_request(path: str) -> Request:
    """Listen to clients for ever; return in each process that is forked for one of them."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    selector = selectors.DefaultSelector()
    for source in (0, listening, woken):
        selector.register(source, selectors.EVENT_READ)
    running: dict[int, socket.socket] = {}
    gc.freeze()  # or the first collection in each fork copies all that it looks at
    os.write(1, b"ready\n")
    while True:
        for key, _ in selector.select():
            if key.fileobj == 0:
                for process in running:
                    os.kill(process, signal.SIGKILL)
                os._exit(0)
            elif key.fileobj == woken:
                os.read(woken, 4096)
                _tell_ends(running, selector)
            elif key.fileobj is listening:
                connection, _ = listening.accept()
                request = Request(connection)
                process = os.fork() if request.complete else -1
                if process == 0:
                    return request
                for descriptor in request.received:
                    os.close(descriptor)
                if process > 0:
                    running[process] = connection
                    selector.register(connection, selectors.EVENT_READ, process)
            elif key.data in running:
                numbers = b""
                with contextlib.suppress(ConnectionError):
                    numbers = running[key.data].recv(64)
                for number in numbers or [signal.SIGKILL]:  # a client that is gone was killed
                    os.kill(key.data, number)
                if not numbers:
                    selector.unregister(key.fileobj)


def _tell_ends(running: dict[int, socket.socket], selector: selectors.BaseSelector) -> None:
    """Tell the clients of processes that have ended how they did."""
    for process in list(running):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            connection = running.pop(process)
            with contextlib.suppress(KeyError):
                selector.unregister(connection)
            with contextlib.suppress(OSError):
                connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            connection.close()


def become(request: Request, program: str, path: Sequence[str]) -> None:
    """Give this process what the client was started with.

    Args:
        program: for processes that this one starts.
        path: where Python looks for modules by itself.
    """
    facts = request.facts
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    apart = [fcntl.fcntl(received, fcntl.F_DUPFD, _APART) for received in request.received]
    os.closerange(3, _APART)
    for descriptor, wanted in zip(apart, facts["descriptors"], strict=True):
        os.dup2(descriptor, wanted)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(facts["environment"])
    os.chdir(facts["folder"])
    own, ask = os.getpid(), os.getppid
    os.getppid = lambda: int(facts["parent"]) if os.getpid() == own else ask()
    sys.executable = program
    if "multiprocessing.spawn" in sys.modules:
        sys.modules["multiprocessing.spawn"].set_executable(program)
    if "tempfile" in sys.modules:
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    told = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [*map(os.path.abspath, told), *path]
    importlib.invalidate_caches()


def run(arguments: list[str]) -> None:
    """Run what Python's own command line asks for."""
    unbuffered = arguments[0] == "-u"
    how, *rest = arguments[unbuffered:]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(main).update(__builtins__=__builtins__, __annotations__={})
    if unbuffered or os.environ.get("PYTHONUNBUFFERED"):
        for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            vars(sys)[name] = vars(sys)[f"__{name}__"] = _unbuffered(stream)
    else:
        cast(TextIOWrapper, sys.stdout).reconfigure(line_buffering=os.isatty(1))
    sys.argv[:] = [how, *rest[1:]] if how in ("-m", "-c") else [how, *rest]
    sys.modules.pop("sitecustomize", None)
    site.execsitecustomize()
    if how == "-m":
        sys.path.insert(0, os.getcwd())
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
    elif how == "-c":
        sys.path.insert(0, "")
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    else:
        sys.path.insert(0, os.path.dirname(os.path.realpath(how)))
        main.__file__ = os.path.join(os.getcwd(), how)
        with open(how, "rb") as file:
            text = file.read()
        exec(compile(text, main.__file__, "exec"), vars(main))


def _unbuffered(stream: TextIO) -> TextIOWrapper:
    raw = open(stream.fileno(), "wb", buffering=0, closefd=False)  # noqa: SIM115 - open to the end
    return TextIOWrapper(cast(BinaryIO, raw), stream.encoding, stream.errors, write_through=True)


def end(error: BaseException | None) -> NoReturn:
    """End the process as Python does, but leave the memory, which is shared with all forks, as it is."""
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if status == 1 and error.code != 1:
            print(error.code, file=sys.stderr)
    elif error is not None:
        status = 1
        # Without the calls in this file.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error.with_traceback(trace), trace
        sys.excepthook(type(error), error, trace)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)


def main() -> None:
    socket_path, program, *modules = sys.argv[1:]
    path = sys.path[1:]
    for name in modules:
        importlib.import_module(name)
    for finalizer in list(vars(weakref.finalize)["_registry"]):
        finalizer.atexit = False  # of what stays imported: for torch's operators that takes a tenth of a small training
    request = wait_for_request(socket_path)
    become(request, program, path)
    error: BaseException | None = None
    try:
        run(request.facts["arguments"])
    except BaseException as raised:
        error = raised
    end(error)


if __name__ == "__main__":
    main()
