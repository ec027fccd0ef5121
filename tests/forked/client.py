"""Stands for a Python: has the server run what it was started for, passes signals on, and ends as that ends.

A copy of it lies beside the server's socket.
"""

import contextlib
import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def inherited() -> list[int]:
    """The open descriptors that were there before this program."""
    found = []
    for name in os.listdir("/dev/fd"):
        try:
            if os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:  # the listing's own
            continue
    return found


def main() -> None:
    program, *arguments = sys.argv
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-c", "-m", "-u")):
        os.execv(sys.executable, [sys.executable, *arguments])
    descriptors = inherited()
    request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "parent": os.getppid(),
        "descriptors": descriptors,
    }
    data = json.dumps(request).encode()
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    connection = socket.socket(socket.AF_UNIX)
    os.chdir(os.path.dirname(program))  # a socket's path must be short
    connection.connect("socket")
    socket.send_fds(connection, [len(data).to_bytes(8, "big")], descriptors)
    connection.sendall(data)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in descriptors:  # the process alone holds them open
        os.dup2(nothing, number)
    for one in PASSED_ON:
        signal.signal(one, lambda number, frame: connection.sendall(bytes([number])))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    status = int(connection.recv(8) or b"70")
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
