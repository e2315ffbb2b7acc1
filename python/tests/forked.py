"""Stands in for a fresh python, which a server (zygote.py) forks.

Usage: forked.py SOCKET EXECUTABLE ARGUMENT..., by the script EXECUTABLE, which forks.py writes. The
fork gets these arguments, environment, folder, and all open files. Its exit status is passed on."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys


def ask(
    at: str,
    arguments: list[str],
    cwd: str,
    environment: dict[str, str],
    files: dict[int, int],
    executable: str = "",
) -> int:
    """Have the server at the socket `at` run a fork, and wait for it.

    Params   files       descriptors here, by the numbers that they get in the fork.
             executable  what the fork takes for its python, "": the server's. Processes that the
                         fork starts by this name are forks, too.
    Returns  the exit status, below 0 for a signal.
    """
    words = {
        "arguments": arguments,
        "cwd": cwd,
        "environment": environment,
        "numbers": list(files),
        "executable": executable,
    }
    text = json.dumps(words).encode() + b"\n"
    answer, why = b"", None
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(at)
            n_sent = socket.send_fds(server, [text], list(files.values()))
            if n_sent < len(text):  # sending nothing fails once a quick fork's answer is there
                server.sendall(text[n_sent:])
            answer = server.recv(64)
        except OSError as error:
            why = error
    if not answer:
        raise RuntimeError("the server of forks (zygote.py) has ended") from why
    return int(answer)


def open_files() -> list[int]:
    """The numbers of all files that this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own is closed
            os.fstat(int(name))
            found.append(int(name))
    return found


def main() -> None:
    at, executable, *arguments = sys.argv[1:]
    files = {number: number for number in open_files()}
    status = ask(at, arguments, os.getcwd(), dict(os.environ), files, executable)
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main()
